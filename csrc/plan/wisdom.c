/* wisdom.c: measured choices. A problem is known by its key, which says what its time depends on and nothing else: not
 * where it stands in a net, not what it is called. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

struct key {
    char *at;
    size_t used; /* more than CLCNN_KEY_MAX: it does not fit */
};

__attribute__((format(printf, 2, 3))) static void add(struct key *k, const char *fmt, ...)
{
    if (k->used >= CLCNN_KEY_MAX)
        return;
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(k->at + k->used, CLCNN_KEY_MAX - k->used, fmt, ap);
    va_end(ap);
    k->used += n > 0 ? (size_t)n : 0;
}

static void add_operand(struct key *k, const struct operand *o)
{
    const struct clcnn_shape *s = &o->shape;
    add(k, " %s", s->rank < 0 ? "-" : o->constant ? "w" : "x");
    for (int i = 0; i < s->rank; i++)
        add(k, "%s%d", i ? "x" : "", s->dim[i]);
    if (s->rank >= 0 && s->dtype != CLCNN_FLOAT32)
        add(k, ":%s", clcnn_dtype_name(s->dtype));
}

static void add_attribute(struct key *k, const struct clcnn_attr_info *info, const void *attrs)
{
    const void *at = (const char *)attrs + info->offset;
    const struct ints *ints = at;
    const struct floats *floats = at;
    add(k, " %s=", info->name);
    switch (info->kind) {
    case CLCNN_ATTR_FLOAT:
        add(k, "%g", (double)*(const float *)at);
        break;
    case CLCNN_ATTR_INTS:
        for (int i = 0; i < ints->n; i++)
            add(k, "%s%d", i ? "," : "", ints->v[i]);
        break;
    case CLCNN_ATTR_FLOATS:
        for (int i = 0; i < floats->n; i++)
            add(k, "%s%g", i ? "," : "", (double)floats->v[i]);
        break;
    default: /* an int, a bool, an index of choices */
        add(k, "%d", *(const int32_t *)at);
    }
}

void problem_key(char out[CLCNN_KEY_MAX], const struct problem *p)
{
    static const char *const precision[] = {
        [CLCNN_PRECISION_STRICT] = "strict",
        [CLCNN_PRECISION_HIGHEST] = "highest",
        [CLCNN_PRECISION_HIGH] = "high",
        [CLCNN_PRECISION_MEDIUM] = "medium",
    };
    struct key k = {out, 0};
    add(&k, "%s", p->op->name);
    for (int i = 0; i < p->n_in; i++)
        add_operand(&k, &p->in[i]);
    add(&k, " >");
    for (int i = 0; i < p->n_out; i++) /* merged operators have attributes that no table tells of */
        add_operand(&k, &p->out[i]);
    for (int i = 0; i < p->op->attr_count; i++)
        add_attribute(&k, &p->op->attrs[i], p->attrs);
    const double tenths = p->zeros.known ? round(10.0 * (double)p->zeros.element) : 0.0;
    if (tenths > 0.0) /* else it is as good as dense */
        add(&k, " zeros=%.1f", tenths / 10.0);
    if (p->few_bits)
        add(&k, " few bits");
    add(&k, "%s %s %s", p->add.present ? p->times ? " times" : " add" : "", act_identifier(p->act),
        precision[p->precision]);
    if (k.used >= CLCNN_KEY_MAX)
        out[0] = '\0';
}

static int by_key(const void *key, const void *choice)
{
    return strcmp(key, ((const struct clcnn_choice *)choice)->key);
}

static const char *found_for(const struct problem *p)
{
    char key[CLCNN_KEY_MAX];
    problem_key(key, p);
    const struct clcnn_choice *found =
        bsearch(key, p->wisdom, (size_t)p->wisdom_count, sizeof *p->wisdom, by_key);
    return found ? found->algo : NULL;
}

const char *wisdom_find(const struct problem *p)
{
    if (p->wisdom_count == 0)
        return NULL;
    struct problem dense = *p;
    dense.zeros.known = false;
    const char *found = found_for(p);
    return found || !p->zeros.known ? found : found_for(&dense);
}
