/* hash.c: SHA-256 (FIPS 180-4) for cache keys, and a fast 128-bit hash for the identity of weights. */
#include <string.h>

#include "base/base.h"

static uint32_t rotr32(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static const uint32_t sha_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static void sha256_block(uint32_t state[8], const uint8_t *p)
{
    uint32_t w[64];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 |
               p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        const uint32_t x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + (rotr32(x, 7) ^ rotr32(x, 18) ^ x >> 3) + w[i - 7] +
               (rotr32(y, 17) ^ rotr32(y, 19) ^ y >> 10);
    }
    for (int i = 0; i < 64; i++) {
        const uint32_t t1 =
            h + (rotr32(e, 6) ^ rotr32(e, 11) ^ rotr32(e, 25)) + ((e & f) ^ (~e & g)) + sha_k[i] + w[i];
        const uint32_t t2 = (rotr32(a, 2) ^ rotr32(a, 13) ^ rotr32(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void sha256_init(struct sha256 *h)
{
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    *h = (struct sha256){.bytes = 0};
    memcpy(h->state, initial, sizeof initial);
}

void sha256_add(struct sha256 *h, const void *data, size_t bytes)
{
    const uint8_t *p = data;

    while (bytes > 0) {
        const size_t used = h->bytes % 64;
        const size_t take = bytes < 64 - used ? bytes : 64 - used;
        memcpy(h->block + used, p, take);
        h->bytes += take;
        p += take;
        bytes -= take;
        if (used + take == 64)
            sha256_block(h->state, h->block);
    }
}

void sha256_hex(struct sha256 *h, char out[65])
{
    static const char digits[] = "0123456789abcdef";
    static const uint8_t pad[64] = {0x80};
    const uint64_t bits = h->bytes * 8;
    uint8_t length[8];

    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(h, pad, (h->bytes % 64 < 56 ? 56 : 120) - h->bytes % 64);
    sha256_add(h, length, sizeof length);
    for (int i = 0; i < 64; i++)
        out[i] = digits[h->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    out[64] = '\0';
}

/* hash128: eight independent 64-bit lanes over blocks of 64 bytes. A lane's step is a bijection of its state for every
 * word and of the word for every state, so one changed word always changes its lane. The lanes are then folded twice,
 * with different constants, through a step that avalanches. */
#define LANES 8
static const uint64_t lane_seed[LANES] = {0x9e3779b97f4a7c15, 0xd1b54a32d192ed03, 0x8cb92ba72f3d8dd7,
                                          0xaef17502108ef2d9, 0xf1357aea2e62a9c5, 0xabc98388fb8fac03,
                                          0x8ebc6af09c88c6e3, 0xcc9e2d51e9b87a35};

static uint64_t rotl64(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static uint64_t avalanche(uint64_t x)
{
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
    x = (x ^ x >> 29) * 0xa0761d6478bd642f;
    return x ^ x >> 32;
}

static void hash_block(uint64_t lane[LANES], const uint8_t *p)
{
    uint64_t word[LANES];

    memcpy(word, p, sizeof word);
    for (int i = 0; i < LANES; i++)
        lane[i] = rotl64(lane[i] ^ word[i] * 0x9fb21c651e98df25, 29) * 0xc2b2ae3d27d4eb4f + lane_seed[i];
}

struct hash128 hash128_bytes(const void *data, size_t bytes)
{
    const uint8_t *p = data;
    uint64_t lane[LANES];
    uint8_t tail[8 * LANES] = {0};
    struct hash128 h = {bytes, ~(uint64_t)bytes};
    size_t left = bytes;

    memcpy(lane, lane_seed, sizeof lane);
    for (; left >= sizeof tail; left -= sizeof tail, p += sizeof tail)
        hash_block(lane, p);
    if (left > 0) {
        memcpy(tail, p, left); /* zeros that follow are told apart by the length, which is hashed too */
        hash_block(lane, tail);
    }
    for (int i = 0; i < LANES; i++) {
        h.a = avalanche(h.a ^ lane[i]) + lane_seed[i];
        h.b = avalanche(h.b + rotl64(lane[i], 23)) ^ lane_seed[LANES - 1 - i];
    }
    h.a = avalanche(h.a);
    h.b = avalanche(h.b);
    return h;
}

void clcnn_hash128(uint8_t hash[16], const void *data, size_t bytes)
{
    const struct hash128 h = hash128_bytes(data, bytes);
    for (int i = 0; i < 8; i++) {
        hash[i] = (uint8_t)(h.a >> 8 * i);
        hash[8 + i] = (uint8_t)(h.b >> 8 * i);
    }
}
