// SPDX-License-Identifier: Apache-2.0
// The support table against the cuDNN that is here, without a GPU: whatever the table serves must
// find an engine for an H200 (described by a file). cuDNN wants a driver to look at; where there is
// none, the toolkit's stub is one. Compiles no kernel; at most 20 graphs.
#ifdef TILEGATE_HAVE_CUDNN
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "backend/cudnn/device.h"
#include "backend/cudnn/frontend.h"
#include "backend/cudnn/graph/form.h"
#include "backend/cudnn/graph/support.h"
#include "tests/unit/cudnn/call.h"

namespace tilegate::cudnn {
namespace {

using namespace tilegate::test;

class CudnnEngine : public testing::Test {
 protected:
  void SetUp() override {
    // Before cuDNN: it then finds this one by its name.
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr &&
        dlopen(TILEGATE_CUDA_STUB, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      GTEST_SKIP() << "neither a driver nor the toolkit's stub: " << dlerror();
    }
    const CudnnFacts found = cudnn_facts();
    if (found.version == 0) GTEST_SKIP() << "no cuDNN: " << found.missing;
    facts_ = h200(found.version);
    std::ifstream file(TILEGATE_CUDNN_DEVICE);
    std::stringstream text;
    text << file.rdbuf();
    device_ = {facts_.compute_capability, text.str()};
    ASSERT_FALSE(device_.properties.empty()) << TILEGATE_CUDNN_DEVICE;
  }

  // The engine's name.
  std::string expect_engine(const AttentionProblem& p) {
    const auto refusal = unsupported_reason(p, facts_);
    EXPECT_FALSE(refusal.has_value()) << *refusal;
    const Result<std::string> engine = find_engine(make_form(p, facts_).spec, device_);
    EXPECT_TRUE(engine.ok()) << summary(Operation(p)) << ": " << engine.status().message();
    return engine.ok() ? *engine : "";
  }

  // Engines that leave unused slots of pages alone.
  static bool is_safe_for_pages(const std::string& engine) {
    return engine.rfind("eng1_", 0) == 0 || engine.rfind("eng8_", 0) == 0;
  }

  DeviceFacts facts_;
  DescribedDevice device_;
};

TEST_F(CudnnEngine, ServesDense) {
  CallShape shape{.rows = 512, .keys = 4096};
  expect_engine(dense_problem(shape));
  shape.options.causal = true;
  expect_engine(dense_problem(shape));
  shape.rows = shape.keys;
  shape.options.window_left = 128;
  expect_engine(dense_problem(shape));
  expect_engine(dense_problem({.sinks = true}));
}

TEST_F(CudnnEngine, ServesRagged) {
  CallShape shape{.rows = 512, .keys = 512};
  expect_engine(ragged_problem(shape));
  shape.options.window_left = 10;
  shape.options.window_right = 4;
  expect_engine(ragged_problem(shape));
  expect_engine(ragged_problem({.dim = 192, .dim_v = 128, .dtype = DType::kFloat16}));
  expect_engine(ragged_problem({.dim = 256, .sinks = true}));
  CallShape equal_rows;
  equal_rows.options.max_qo_len = equal_rows.rows;
  expect_engine(ragged_problem(equal_rows));
  CallShape equal_keys;
  equal_keys.options.max_kv_len = equal_keys.keys;
  expect_engine(ragged_problem(equal_keys));
}

TEST_F(CudnnEngine, ServesPaged) {
  CallShape shape;
  shape.options.causal = true;
  expect_engine(paged_problem(shape));
  shape.sinks = true;
  EXPECT_TRUE(is_safe_for_pages(expect_engine(paged_problem(shape))));
  EXPECT_TRUE(is_safe_for_pages(expect_engine(paged_problem({.batch = 4096, .keys = 65536}))));
}

TEST_F(CudnnEngine, ServesDecode) {
  for (const std::int64_t page_size : {1, 16, 128}) {
    EXPECT_TRUE(is_safe_for_pages(
        expect_engine(decode_problem({.rows = 1, .keys = 8192, .page_size = page_size}))));
  }
  expect_engine(decode_problem({.rows = 4, .keys = 8192}));
  expect_engine(decode_problem({.rows = 1, .keys = 8192, .sinks = true}));
  CallShape window{.rows = 1, .keys = 8192};
  window.options.window_left = 100;
  expect_engine(decode_problem(window));
}

// The reason is cuDNN's own.
TEST_F(CudnnEngine, PassesARefusalOn) {
  GraphSpec spec = make_form(dense_problem({}), facts_).spec;
  spec.dim_qk = 12;
  const Result<std::string> engine = find_engine(spec, device_);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(engine.status().message().find("cuDNN"), std::string::npos);
}

}  // namespace
}  // namespace tilegate::cudnn
#endif
