// SPDX-License-Identifier: Apache-2.0
// A backend is named, not numbered; nor does another enumeration stand for it.
#include "tilegate/attention.h"

tilegate::AttentionOptions options() {
  tilegate::AttentionOptions result;
#if TILEGATE_BAD
  result.backend = 2;
#else
  result.backend = tilegate::Backend::kCpu;
#endif
  return result;
}
