/* nms.h: what the algorithms of nms share. */
#ifndef CLCNN_ALGOS_NMS_H
#define CLCNN_ALGOS_NMS_H

#include "algos/common/rows.h"
#include "vision/vision_args.h"

struct nms_args nms_args_of(const struct problem *p);
/* Views of the boxes kept of each list, and of their numbers: workspace of nms_bytes(). */
struct nms_lists {
    int kept, counts;
};
size_t nms_bytes(const struct problem *p);
struct nms_lists emit_nms_lists(struct emit *e, const struct problem *p);
/* Operands of a step that finds them by an order of boxes and the corners of kept ones, which are workspaces; and CENTER. */
void nms_operands(struct step *s, const struct problem *p, int order, int near, struct nms_lists l);
/* The step that writes them as rows. */
void emit_nms_rows(struct emit *e, const struct problem *p, struct nms_lists l);

#endif
