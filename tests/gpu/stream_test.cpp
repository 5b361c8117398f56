// SPDX-License-Identifier: Apache-2.0
// Fills, copies and reads on a stream: every size around a block of words, odd offsets, recordings.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/gpu/device.h"
#include "tilegate/context.h"
#include "tilegate/device_timing.h"

namespace tilegate::test {
namespace {

constexpr Device kGpu{DeviceType::kCuda, 0};
using Bytes = std::vector<unsigned char>;

class StreamGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (compute_capability() == 0) GTEST_SKIP() << "no GPU";
  }

  static DeviceBuffer buffer(const Bytes& bytes) {
    DeviceBuffer result = DeviceBuffer::allocate(kGpu, bytes.size()).value();
    result.copy_from_host(bytes.data(), bytes.size()).throw_if_error();
    return result;
  }
  static Bytes read(const DeviceBuffer& buffer) {
    Bytes bytes(buffer.bytes());
    buffer.copy_to_host(bytes.data(), bytes.size()).throw_if_error();
    return bytes;
  }
  static Bytes counting(std::size_t size) {
    Bytes bytes(size);
    std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(size));
    return bytes;
  }
};

TEST_F(StreamGpu, CopiesEverySizeAndOffset) {
  const Stream stream = Stream::create(kGpu).value();
  for (std::size_t size : {1, 15, 16, 17, 16 * 1023, 16 * 1024, 16 * 1025 + 3, 1 << 20}) {
    for (std::size_t offset : {0, 16, 5}) {
      const Bytes source = counting(size);
      const DeviceBuffer from = buffer(source);
      DeviceBuffer to = buffer(Bytes(offset + size + 32, 0xee));
      ASSERT_TRUE(enqueue_copy(stream, to, from, size, offset).ok());
      ASSERT_TRUE(stream.synchronize().ok());
      Bytes expected(offset + size + 32, 0xee);
      std::copy(source.begin(), source.end(), expected.begin() + static_cast<long>(offset));
      EXPECT_EQ(read(to), expected) << size << " at " << offset;
    }
  }
}

TEST_F(StreamGpu, ReadsLeaveTheBufferAsItIs) {
  const Stream stream = Stream::create(kGpu).value();
  const Bytes bytes = counting(16 * 3000 + 7);
  DeviceBuffer data = buffer(bytes);
  ASSERT_TRUE(enqueue_read(stream, data).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  EXPECT_EQ(read(data), bytes);
}

TEST_F(StreamGpu, ARecordingFillsAndCopies) {
  const Stream stream = Stream::create(kGpu).value();
  DeviceBuffer from = buffer(Bytes(4096, 1));
  DeviceBuffer to = buffer(Bytes(4096, 2));
  const Recording recording = Recording::capture(stream, [&] {
                                if (Status status = enqueue_fill(stream, from, 9); !status.ok())
                                  return status;
                                return enqueue_copy(stream, to, from, 4000);
                              }).value();
  EXPECT_EQ(read(to), Bytes(4096, 2));
  ASSERT_TRUE(recording.replay(stream).ok());
  ASSERT_TRUE(stream.synchronize().ok());
  Bytes expected(4096, 9);
  std::fill(expected.begin() + 4000, expected.end(), 2);
  EXPECT_EQ(read(to), expected);
}

// A launch on a stream of another device than the current one fails, unless that one is made
// current; and what the caller had made current stays so.
TEST_F(StreamGpu, WorksWhateverDeviceIsCurrent) {
  int devices = 0;
  ASSERT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
  if (devices < 2) GTEST_SKIP() << "needs two GPUs";
  constexpr Device kOther{DeviceType::kCuda, 1};
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  {
    const Stream stream = Stream::create(kOther).value();
    DeviceBuffer from = DeviceBuffer::allocate(kOther, 64).value();
    DeviceBuffer to = DeviceBuffer::allocate(kOther, 64).value();
    ASSERT_TRUE(enqueue_fill(stream, from, 9).ok());
    ASSERT_TRUE(measure_ms(stream, [&] { return enqueue_copy(stream, to, from, 64); }).ok());
    EXPECT_EQ(read(to), Bytes(64, 9));
  }
  int current = -1;
  ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
  EXPECT_EQ(current, 0);
}

TEST_F(StreamGpu, ADeviceThatIsNotThereIsAnInvalidArgument) {
  const Result<Context> context = Context::create({.device = {DeviceType::kCuda, 1000}});
  ASSERT_FALSE(context.ok());
  EXPECT_EQ(context.status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tilegate::test
