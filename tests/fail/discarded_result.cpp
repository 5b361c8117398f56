// SPDX-License-Identifier: Apache-2.0
// A Result may not be dropped on the floor.
#include "tilegate/tilegate.h"

bool plans(const tilegate::Problem& problem, tilegate::Context& context) {
#if TILEGATE_BAD
  tilegate::plan(problem, context);
  return true;
#else
  return tilegate::plan(problem, context).ok();
#endif
}
