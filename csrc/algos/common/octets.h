/* octets.h: groups that share positions which become halves in cores (the host's side of kernels/common/octets.clh). */
#ifndef CLCNN_ALGOS_OCTETS_H
#define CLCNN_ALGOS_OCTETS_H

#include "plan/emit.h"

/* Octets of a position that the largest group holds where each of its work-items has `kept` ones. */
int octets_most(bool deep, int kept);
/* A step for so many positions of `octets` octets, with the defines DEEP and KEPT, at most `most`, and as many work-items. */
struct step *emit_octets(struct emit *e, const char *file, size_t positions, bool deep, int octets, int most);

#endif
