// SPDX-License-Identifier: Apache-2.0
// Fills and copies put on a stream: what they move, and that they never pass the end of a buffer.
#include "tilegate/device_timing.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace tilegate {
namespace {

TEST(Stream, FillsAndCopiesOnTheCpuAtOnce) {
  const Stream stream = Stream::create({}).value();
  DeviceBuffer from = DeviceBuffer::allocate({}, 8).value();
  DeviceBuffer to = DeviceBuffer::allocate({}, 8).value();
  ASSERT_TRUE(enqueue_fill(stream, from, 7).ok());
  ASSERT_TRUE(enqueue_fill(stream, to, 1).ok());
  ASSERT_TRUE(enqueue_copy(stream, to, from, 3, 4).ok());
  std::array<unsigned char, 8> bytes{};
  ASSERT_TRUE(to.copy_to_host(bytes.data(), bytes.size()).ok());
  EXPECT_EQ(bytes, (std::array<unsigned char, 8>{1, 1, 1, 1, 7, 7, 7, 1}));
}

TEST(Stream, ReadsLeaveTheBufferAsItIs) {
  const Stream stream = Stream::create({}).value();
  DeviceBuffer buffer = DeviceBuffer::allocate({}, 200).value();
  ASSERT_TRUE(enqueue_fill(stream, buffer, 7).ok());
  ASSERT_TRUE(enqueue_read(stream, buffer).ok());
  std::array<unsigned char, 200> bytes{};
  ASSERT_TRUE(buffer.copy_to_host(bytes.data(), bytes.size()).ok());
  for (unsigned char byte : bytes) EXPECT_EQ(byte, 7);
}

TEST(Stream, CopiesStayWithinBothBuffers) {
  const Stream stream = Stream::create({}).value();
  const DeviceBuffer from = DeviceBuffer::allocate({}, 8).value();
  DeviceBuffer to = DeviceBuffer::allocate({}, 4).value();
  EXPECT_TRUE(enqueue_copy(stream, to, from, 4, 0).ok());
  EXPECT_TRUE(enqueue_copy(stream, to, from, 0, 4).ok());
  EXPECT_EQ(enqueue_copy(stream, to, from, 4, 1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(enqueue_copy(stream, to, from, 1, 5).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(enqueue_copy(stream, to, to, 5, 0).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tilegate
