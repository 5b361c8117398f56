// SPDX-License-Identifier: Apache-2.0
// A Context owns threads and handles: it moves, it is not copied.
#include <utility>

#include "tilegate/context.h"

tilegate::Context take(tilegate::Context& context) {
#if TILEGATE_BAD
  return context;
#else
  return std::move(context);
#endif
}
