/* match.h: what rewrites need to recognise an operator that was written out as several: looking through arithmetic with
 * constants, keeping count of the nodes seen, and putting one node in the place of all. */
#ifndef CLCNN_GRAPH_MATCH_H
#define CLCNN_GRAPH_MATCH_H

#include "graph/rewrite.h"

/* The inner nodes of a pattern: all but the last one, whose output stays. */
struct match {
    struct node *node[24];
    int n, looks; /* at nodes, a node several times too */
    bool full;    /* there were more of one or the other */
};
void match_add(struct match *m, struct node *n);
/* Whether no one but the pattern uses the results of its inner nodes, and no one forces their algorithms. */
bool match_closed(const struct rewriter *r, const struct match *m, const struct node *last,
                  const struct op_def *merged_op);
/* Makes `last` a node of `op` with these inputs and attributes; the inner nodes are gone. Its output must have the shape that
 * `op` gives. */
struct match_result {
    const struct op_def *op;
    int n_in, in[3];
    int n_attrs;
    struct clcnn_attr attrs[3];
};
enum clcnn_status match_replace(struct rewriter *r, const struct match *m, struct node *last,
                                const struct match_result *result);
/* A dead node uses its inputs no longer. */
void match_remove(struct rewriter *r, struct node *n);
/* Nodes of this kind that no one reads are gone, the last ones first. */
void match_drop_unread(struct rewriter *r, bool (*kind)(const struct node *n));

/* The live node with one output that computes `value`, whoever else uses it; NULL for inputs and constants. */
struct node *match_producer(const struct rewriter *r, int value);
/* The same, if it is of this operator. */
struct node *match_op(const struct rewriter *r, int value, const struct op_def *op);
/* Whether a slice takes all of every dimension but d. */
bool match_slices_along(const struct rewriter *r, const struct node *slice, int d);
/* Whether a value is a constant of one float. */
bool match_scalar(const struct rewriter *r, int value, double *number);
/* Of a node with two inputs, one of them such a constant: its place, and -1 when there is none. */
int match_scalar_operand(const struct rewriter *r, const struct node *n, double *number);
/* The input that n multiplies by a number, 0 or 1, or -1; *factor is the number. */
int match_scaled(const struct rewriter *r, const struct node *n, double *factor);
/* Whether a constant that an exporter wrote is this one: it was rounded to float32, and may be a product of two such. */
bool match_close(double got, double exact);

/* The value whose square this is, as a product or a power; -1 when it is none. `other`: the second factor, often the same. */
int match_square(const struct rewriter *r, int value, struct match *m, int *other);

/* scale * value + shift. */
struct match_affine {
    int value;
    double scale, shift;
};
/* Whether n is arithmetic with one constant; `a`, of its result, becomes that of its operand. */
bool match_affine_step(const struct rewriter *r, const struct node *n, struct match_affine *a);
/* Looks through additions and multiplications by single constants whose results no one else uses. */
struct match_affine match_affine(const struct rewriter *r, int value, struct match *m);

/* scale * the product of num / the product of den. */
struct match_quotient {
    double scale;
    int num[4], den[4];
    int n_num, n_den;
    bool full; /* there were more */
};
/* Looks through products and quotients whose results no one else uses, from what node n computes. */
struct match_quotient match_quotient(const struct rewriter *r, struct node *n, struct match *m);

/* Whether `value` is a polynomial of x of degree 3 at most: its coefficients, the constant one first. */
enum { MATCH_COEFFICIENTS = 4 };
bool match_polynomial(const struct rewriter *r, int value, int x, double out[MATCH_COEFFICIENTS],
                      struct match *m);

#endif
