/* squeeze_excite_common.h: the inputs of the gate of a squeeze-and-excite block. */
#ifndef CLCNN_ALGOS_SQUEEZE_EXCITE_COMMON_H
#define CLCNN_ALGOS_SQUEEZE_EXCITE_COMMON_H

#include "plan/emit.h"

enum { SQUEEZE_W1 = 1, SQUEEZE_B1, SQUEEZE_W2, SQUEEZE_B2 };

#endif
