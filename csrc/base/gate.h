/* gate.h: waiting for another thread. A gate is a lock that may be held for long, so whoever wants it looks at the clock
 * and asks its caller meanwhile. Locks that are held for an instant are plain mutexes. */
#ifndef CLCNN_GATE_H
#define CLCNN_GATE_H

#include <pthread.h>

#include "base/base.h"

#define SLICE_MS 50.0 /* between looks at the clock and at who is asked */

struct gate {
    pthread_mutex_t mutex; /* held for an instant */
    pthread_cond_t opened;
    bool held;
};
void gate_init(struct gate *g);
void gate_destroy(struct gate *g);
/* OK: it is the caller's until gate_leave(). `what` completes the message of a time-out: "another run of this plan". */
enum clcnn_status gate_enter(struct gate *g, const struct clcnn_patience *p, const char *what,
                             struct clcnn_err *err);
void gate_leave(struct gate *g);

/* OK to go on, STOPPED, TIMEOUT, or STATE where whoever was asked has forked and this is the child: then nothing of the
 * parent's may be touched any more. p may be NULL. */
enum clcnn_status patience_look(const struct clcnn_patience *p, const char *what, struct clcnn_err *err);
/* What comes next, or what is done; p may be NULL. */
void patience_tell(const struct clcnn_patience *p, const char *what, int done, int wanted);
/* The clock's end, 0 without one. */
double patience_end_ms(const struct clcnn_patience *p);

#endif
