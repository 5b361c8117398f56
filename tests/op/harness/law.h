// SPDX-License-Identifier: Apache-2.0
// Law: the fixture of every law. It runs calls on the backend under test and, around every call,
// checks what holds for all of them: inputs and the gaps between strided elements keep their bytes,
// a refused call changes nothing, and a plan runs in exactly the workspace it asked for.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/op/calls/call.h"
#include "tests/op/harness/served.h"
#include "tilegate/tilegate.h"

namespace laws {

// A backend whose device is not here: it judges every problem as the planner would there, and the
// cpu backend computes what it would serve.
class Rehearsal {
 public:
  virtual ~Rehearsal() = default;
  virtual tilegate::Status admit(const tilegate::Problem& problem) const = 0;
  // The rejection is about what is asked for, so that no other shape or dtype would be served.
  virtual bool lacks_feature(const std::string& rejection) const = 0;
};

struct UnderTest {
  std::string name;
  tilegate::Backend backend = tilegate::Backend::kReference;
  tilegate::Device device;
  const Rehearsal* rehearsal = nullptr;
};

inline void PrintTo(const UnderTest& under_test, std::ostream* out) { *out << under_test.name; }

// Every backend that this build has and that can run here.
std::vector<UnderTest> backends_under_test();

// Memory of the device that the backend computes on.
Memory& memory_of(const UnderTest& under_test);

class Law : public ::testing::TestWithParam<UnderTest> {
 protected:
  Law() { set_served(GetParam().backend); }
  ~Law() override { set_served(tilegate::Backend::kReference); }

  // True: it ran. A rejection with `unsupported` is recorded (see TearDown), every other error is a
  // failure; both give false, and the law goes on with its next problem.
  bool run(Call& call, int threads = 0);
  // The call's status, whatever it is.
  tilegate::Status attempt(Call& call, int threads = 0);
  // The call is malformed: one line that contains the argument, the value wanted and the one given.
  void expect_invalid(Call& call, const std::vector<std::string>& words);
  // describe + plan for the backend under test. Null after recording a rejection or failure.
  std::shared_ptr<tilegate::Plan> make_plan(Call& call, int threads = 0);
  // Runs a plan that exists already.
  tilegate::Status run_plan(const tilegate::Plan& plan, Call& call, int threads = 0);

  // Of the last plan.
  const std::string& explain() const { return explain_; }
  bool pinned() const { return explain_.find("bits: pinned") != std::string::npos; }

  // The backend that computes: the one under test, or its stand-in.
  tilegate::Backend backend() const {
    return GetParam().rehearsal != nullptr ? tilegate::Backend::kCpu : GetParam().backend;
  }
  // On reference and cpu a rejection is a failure, unless the law says that it may be one.
  void may_reject() { may_reject_ = true; }
  bool on(tilegate::Backend backend) const { return GetParam().backend == backend; }
  bool on_cpu_device() const { return GetParam().device.type == tilegate::DeviceType::kCpu; }
  tilegate::Context& context(int threads = 0);

  void TearDown() override;

 private:
  std::map<int, tilegate::Context> contexts_;
  // What became of the problems of one operation.
  struct Tally {
    int served = 0;
    std::vector<std::string> rejections;
  };

  tilegate::Result<tilegate::Plan> plan(Call& call, int threads);
  // True: served. A rejection is recorded, any other error a failure.
  bool record(const tilegate::Status& status);
  void expect_something_served(const std::string& operation, const Tally& tally) const;

  std::string explain_;
  std::string operation_;  // of the last problem
  std::map<std::string, Tally> tallies_;
  bool may_reject_ = false;
};

}  // namespace laws

// Gives every TEST_P of a suite derived from Law one instance a backend.
#define LAWS_ON_EVERY_BACKEND(Suite)                                                    \
  INSTANTIATE_TEST_SUITE_P(On, Suite, ::testing::ValuesIn(laws::backends_under_test()), \
                           [](const auto& instance) { return instance.param.name; })
