#include <stdlib.h>

/* A library without an interface to Python, so that its headers aren't needed. */
int twice(int n) { return 2 * n; }
void *PyInit_fast(void) { return 0; }
