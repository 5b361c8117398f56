// SPDX-License-Identifier: Apache-2.0
// Law: explain() speaks of kernels that could have served the operation, and of no others.
#include <sstream>

#include "tests/op/calls/catalog.h"
#include "tests/op/harness/law.h"

namespace laws {
namespace {

bool contains(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

class Explain : public Law {};

TEST_P(Explain, RejectsOnlyKernelsOfTheOperation) {
  may_reject();
  for (const CatalogEntry& entry : catalog()) {
    const auto call = entry.make();
    if (!make_plan(*call)) continue;
    std::istringstream lines(explain());
    std::string line;
    std::getline(lines, line);
    const std::string problem = line;
    while (std::getline(lines, line)) {
      if (line.rfind("rejected: ", 0) != 0) continue;
      for (const std::string op : {"append", "merge", "commit"}) {
        EXPECT_EQ(contains(line.substr(0, line.find(':', 10)), op), contains(problem, op))
            << problem << "\n"
            << line;
      }
    }
  }
}

LAWS_ON_EVERY_BACKEND(Explain);

}  // namespace
}  // namespace laws
