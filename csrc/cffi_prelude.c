#include "hf.h"
