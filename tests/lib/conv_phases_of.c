/* conv_phases_of.c: prints how csrc/algos/conv/conv_phases.c cuts one dimension of a transposed convolution, given its input,
 * output, kernel, stride, padding and dilation: the most taps of a phase, the outputs of the largest one, and then a line for
 * each phase. Built with it by tests/rewrites/test_transposed.py. */
#include "algos/conv/conv_phases.h"

#include <stdio.h>
#include <stdlib.h>

int main(int count, char **argument)
{
    if (count != 7)
        return 2;
    struct conv_args a = {
        .in = {1, 1, atoi(argument[1])},
        .out = {1, 1, atoi(argument[2])},
        .ker = {1, 1, atoi(argument[3])},
        .stride = {1, 1, atoi(argument[4])},
        .pad = {0, 0, atoi(argument[5])},
        .dil = {1, 1, atoi(argument[6])},
    };
    conv_phases_of_pixels(&a);
    printf("%d\n%zu\n", conv_phase_taps(&a), conv_phase_pixels(&a));
    for (int q = 0; q < conv_phases_of(&a).count[1]; q++) {
        const struct conv_phase f = conv_phase_of(&a, 2, q);
        printf("%d %d %d %d %d %d %d\n", f.outputs, f.taps, f.first, f.every, f.from, f.step, a.stride[2]);
    }
    return 0;
}
