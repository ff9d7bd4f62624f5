/* byte_pass.h: what the files of the rewrite to maps of bytes share; see rewrite_bytes.c. */
#ifndef CLCNN_GRAPH_BYTE_PASS_H
#define CLCNN_GRAPH_BYTE_PASS_H

#include "graph/match.h"

/* Channels of a block; maps of so few have smaller ones; steps of a byte. */
enum { BYTE_BLOCK = 16, BYTE_FEW = 4, BYTE_STEPS = 256 };
#define BYTE_MOST_SUM \
    1.0e9f /* of products, in size: with a zero point and what floats round it fits 32 bits */

/* A float value as bytes: it is (byte - zero) * scale. */
struct known {
    int bytes; /* value; -1: it is not known */
    float scale;
    int zero;
    bool rows; /* channels are the value's last dimension, not its second */
};
/* Whether floats that are to be rounded become bytes by themselves, and which of their dimensions is that of channels. */
enum byte_make { BYTE_AS_THEY_ARE, BYTE_MAP, BYTE_ROWS };

/* What is rounded to steps: floats x, and the bytes that come out, or -1. */
struct rounded {
    int x;
    struct known to;
};

/* Bytes that are those of another value, looked up in a table. */
struct byte_table {
    int bytes, base, table;
};

struct byte_pass {
    struct rewriter *r;
    struct known *known; /* of each value that was there before */
    struct rounded *rounded;
    struct byte_table *tables;
    int *order; /* nodes; -1: one that was moved */
    int n_values, n_rounded, n_tables, n_order;
};

const struct clcnn_shape *byte_shape(const struct byte_pass *b, int value);
/* The data of a constant of floats; NULL: it is none. */
const float *byte_constant(const struct byte_pass *b, int value);
/* A new node behind all that are there by now. */
enum clcnn_status byte_append(struct byte_pass *b, const struct op_def *op, const char *name,
                              const void *attrs, const int *inputs, int n_in, int *value);

/* The floats that a fake_quantize rounds, and to which steps: a division by one number before it is part of that. False where it has
 * no whole zero point. */
bool byte_rounding(const struct byte_pass *b, const struct node *n, struct rounded *out);
/* Whether `value` is read by nothing but such roundings of it. */
bool byte_only_rounded(const struct byte_pass *b, int value, const struct rounded *as);
/* What is below zero is cut off by the rounding too, where that is the lowest step. */
int byte_before_relu(const struct byte_pass *b, int value, int zero);
/* Whether the bytes of a value are known by now, without asking what it is made of. */
bool byte_is_known(const struct byte_pass *b, int value);
/* What is rounded so by now; NULL: nothing. */
const struct rounded *byte_find(const struct byte_pass *b, const struct rounded *what);
/* Which operand of a product is times a number above zero, *factor; -1: it is something else. */
int byte_times_number(const struct byte_pass *b, const struct node *mul, double *factor);
/* Whether a node is a reshape that leaves the last dimension as it is. */
bool byte_keeps_rows(const struct byte_pass *b, const struct node *n);
/* The bytes of a float value, through what only moves them; floats are rounded where `make` says so. */
enum clcnn_status byte_of(struct byte_pass *b, int value, enum byte_make make, struct known *out);
/* The same, of a map. */
enum clcnn_status bytes_of_map(struct byte_pass *b, int value, enum byte_make make, struct known *out);

/* What is rounded as bytes, if it is a sum of products, the sum of each channel, or that of two maps, maps side by side, a map times
 * a number a channel, or computed from one map element by element; out->bytes stays -1 else. */
enum clcnn_status byte_round_products(struct byte_pass *b, const struct rounded *what, struct known *out);
enum clcnn_status byte_round_mean(struct byte_pass *b, const struct rounded *what, struct known *out);
enum clcnn_status byte_round_maps(struct byte_pass *b, const struct rounded *what, struct known *out);
enum clcnn_status byte_round_concat(struct byte_pass *b, const struct rounded *what, struct known *out);
enum clcnn_status byte_round_affine(struct byte_pass *b, const struct rounded *what, struct known *out);
enum clcnn_status byte_round_function(struct byte_pass *b, const struct rounded *what, struct known *out);
/* New nodes of one rounding at most. */
enum {
    BYTE_MOST_FUNCTIONS = 12,
    BYTE_MOST_JOINED = 64, /* of a concatenation */
    BYTE_ROUND_NODES = 3 + 2 * BYTE_MOST_FUNCTIONS + 3,
    BYTE_JOIN_NODES = 4, /* for each input of a concatenation: what it is, with other steps */
};

#endif
