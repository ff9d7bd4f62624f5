/* byte_conv_pack.cl: filters of whole numbers as bytes, in the order in which byte_conv.cl and byte_depthwise.cl read
 * them, and the sum of each filter.
 *
 *   main:       dst[k/(KV*16)][c/(4*Q)][tap][c/4 % Q][k/16 % KV][k % 16][c % 4] = w[k][c][tap], then the sums (int)
 *   depthwise:  dst[k/16][r][s/4][k % 16][s % 4] = w[k][0][r][s], then the sums (int)
 * with zeros for missing filters, channels and taps. Of groups a block of filters has the blocks of channels that any
 * of them reads (bytes.clh).
 * Work-group: WG filters. Local memory: none. Defines: WG (any), KV. */
#include "common/clcnn.clh"
#include "bytes/bytes_args.h"
#ifndef FN
#define FN(x) byte_conv_pack_##x
#endif
#include "bytes/bytes.clh"
#ifndef KV
#define KV 2
#endif

void FN(body)(ulong group, SRC w, DST_OF(char) dst, const struct byte_pack_args *a)
{
    const int k = (int)(group * WG) + LANE, block = k / (KV * 16), v = k / 16 % KV;
    if (block < a->k_blocks) {
        const long filter = (long)a->taps * a->c_blocks * a->q * (KV * 64);
        DST_OF(char) to = dst + block * filter + v * 64 + k % 16 * 4;
        const int first = FN(first_block)(block * (KV * 16), a->k_group, a->c, a->q * 4, a->last) * a->q * 4;
        int sum = 0;
        for (int c = 0; c < a->c_blocks * a->q * 4; c++)
            for (int t = 0; t < a->taps; t++) {
                const int own = first + c - k / a->k_group * a->c; /* among the channels of its group */
                const bool there = k < a->k && own >= 0 && own < a->c;
                const int value = there ? (int)w[k * a->w_k + (long)own * a->taps + t] : 0;
                to[(((long)(c / (4 * a->q)) * a->taps + t) * a->q + c / 4 % a->q) * (KV * 64) + c % 4] = (char)value;
                sum += value;
            }
        ((global int *)(dst + filter * a->k_blocks))[k] = sum;
    }
}

/* c: columns of a window. */
void FN(depthwise_body)(ulong group, SRC w, DST_OF(char) dst, const struct byte_pack_args *a)
{
    const int k = (int)(group * WG) + LANE, block = k / 16;
    if (block < a->k_blocks) {
        const int rows = a->taps / a->c;
        const long filter = (long)rows * a->q * 64;
        int sum = 0;
        for (int r = 0; r < rows; r++)
            for (int s = 0; s < a->q * 4; s++) {
                const int value = k < a->k && s < a->c ? (int)w[k * a->w_k + r * a->c + s] : 0;
                dst[block * filter + (long)(r * a->q + s / 4) * 64 + k % 16 * 4 + s % 4] = (char)value;
                sum += value;
            }
        ((global int *)(dst + filter * a->k_blocks))[k] = sum;
    }
}

KERNEL FN(main)(SRC w, ulong w_off, DST_OF(char) dst, ulong dst_off, const struct byte_pack_args a)
{
    FN(body)(GROUP, w + w_off, dst + dst_off, &a);
}

KERNEL FN(depthwise)(SRC w, ulong w_off, DST_OF(char) dst, ulong dst_off, const struct byte_pack_args a)
{
    FN(depthwise_body)(GROUP, w + w_off, dst + dst_off, &a);
}
