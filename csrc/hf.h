/* The public contract with what it needs to stand alone as C. */
#ifndef HF_H
#define HF_H

#include <stddef.h>
#include <stdint.h>

#include "api.h"

#endif
