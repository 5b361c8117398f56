// SPDX-License-Identifier: Apache-2.0
// The safetensors reader and writer: what is written is read back, and every way to be malformed is
// an io error that names what is wrong.
#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "raw_file.h"

namespace tilegate::io::testing {
namespace {

Result<Safetensors> parse(const RawFile& file) {
  const std::string bytes = file.bytes();
  // A copy of exact size: a read past the end is a read out of bounds.
  const std::vector<char> exact(bytes.begin(), bytes.end());
  return parse_safetensors(std::as_bytes(std::span(exact)));
}

struct Malformed {
  const char* name;
  RawFile file;
  const char* message;  // part of it
};

class MalformedFile : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedFile, IsAnErrorThatSaysWhatIsWrong) {
  const Result<Safetensors> file = parse(GetParam().file);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kIo);
  EXPECT_NE(file.status().message().find(GetParam().message), std::string::npos)
      << file.status().message();
  EXPECT_EQ(file.status().message().find('\n'), std::string::npos);
}

RawFile with_tensor(std::string_view dtype, std::string_view shape, std::string_view offsets,
                    std::size_t data) {
  return {one_tensor(dtype, shape, offsets), std::string(data, 'x')};
}

RawFile with_header(std::string header) { return {std::move(header), ""}; }

const std::string kTwoOverlapping = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                    R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})";
const std::string kTwoWithHole = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                 R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";
const std::string kTwice = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                           R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
const std::string kTwiceInside =
    R"({"a":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
const std::string kExtraField =
    R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2],"strides":[1]}})";

INSTANTIATE_TEST_SUITE_P(
    Header, MalformedFile,
    ::testing::Values(
        Malformed{"HeaderCutShort", {"{\"a\"", "", 100}, "header must fit in the file"},
        Malformed{"HeaderTooLong", {"{}", "", 100'000'001}, "at most 100000000 bytes"},
        Malformed{"HeaderLengthAbsurd", {"{}", "", INT64_MAX}, "at most 100000000 bytes"},
        Malformed{"HeaderEmpty", with_header(""), "must be JSON"},
        Malformed{"NotJson", with_header("{\"a\":"), "must be JSON"},
        Malformed{"TextAfterJson", with_header("{} {}"), "must be JSON"},
        Malformed{"InvalidUtf8", with_header("{\"\xff\":{}}"), "must be JSON"},
        Malformed{"NotAnObject", with_header("[1]"), "must be a JSON object, got a array"},
        Malformed{"TooDeep", with_header("{\"a\":[[[1]]]}"), "nested at most 3 deep, got 4"},
        Malformed{"VeryDeep", with_header(std::string(1'000'000, '[')), "nested at most 3 deep"},
        Malformed{"NameTwice", {kTwice, "xx"}, "must name \"a\" once"},
        Malformed{"FieldTwice", {kTwiceInside, "xx"}, "must name \"dtype\" once"},
        Malformed{"ExtraField", {kExtraField, "xx"}, "got \"strides\""},
        Malformed{"MetadataNotAnObject", with_header(R"({"__metadata__":3})"),
                  "__metadata__ must be an object"},
        Malformed{"MetadataNotStrings", with_header(R"({"__metadata__":{"n":3}})"),
                  "must map names to strings, got a number under \"n\""},
        Malformed{"NameWithNewline", with_header(R"({"a\nb":3})"), "tensor \"a\\x0ab\" must be"}),
    [](const auto& kind) { return kind.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Tensor, MalformedFile,
    ::testing::Values(
        Malformed{"NotAnObject", with_header("{\"a\":3}"), "tensor \"a\" must be an object"},
        Malformed{"DtypeAbsent", with_header("{\"a\":{}}"), "must have a dtype string"},
        Malformed{"DtypeUnknown", with_tensor("F8_E4M3", "[2]", "[0,2]", 2), "got \"F8_E4M3\""},
        Malformed{"ShapeNotArray", with_tensor("U8", "2", "[0,2]", 2), "must have a shape array"},
        Malformed{"ShapeNegative", with_tensor("U8", "[-2]", "[0,2]", 2), "must hold integers"},
        Malformed{"ShapeFraction", with_tensor("U8", "[2.0]", "[0,2]", 2), "must hold integers"},
        Malformed{"ShapePast64Bits", with_tensor("U8", "[9223372036854775808]", "[0,2]", 2),
                  "must hold integers"},
        Malformed{"RankZero", with_tensor("U8", "[]", "[0,1]", 1), "rank of tensor \"a\" must be"},
        Malformed{"RankTooHigh", with_tensor("U8", "[1,1,1,1,1,1,1]", "[0,1]", 1), "got 7"},
        Malformed{"ShapeOverflows",
                  with_tensor("F32", "[4294967296,4294967296,4294967296]", "[0,4]", 4), "got 4"},
        Malformed{"OffsetsAbsent", with_header(R"({"a":{"dtype":"U8","shape":[1]}})"),
                  "must have data_offsets"},
        Malformed{"OffsetsOfThree", with_tensor("U8", "[2]", "[0,1,2]", 2),
                  "must have data_offsets"},
        Malformed{"OffsetsReversed", with_tensor("U8", "[2]", "[2,0]", 2), "begin <= end"},
        Malformed{"OffsetsNegative", with_tensor("U8", "[2]", "[-2,0]", 2), "must be integers"},
        Malformed{"OffsetsPastTheFile", with_tensor("U8", "[4]", "[0,4]", 3),
                  "within the file's 3 data bytes, got 4"},
        Malformed{"OffsetsOfOtherSize", with_tensor("F32", "[2]", "[0,4]", 4),
                  "span the 8 bytes of its shape, got 4"},
        Malformed{"Overlap", {kTwoOverlapping, "xxxxxx"}, "must not overlap, got \"a\" and \"b\""},
        Malformed{"Hole", {kTwoWithHole, "xxxxxx"}, "got none for bytes 2..4"},
        Malformed{"DataAfterTheLast", with_tensor("U8", "[2]", "[0,2]", 5),
                  "got none for bytes 2..5"}),
    [](const auto& kind) { return kind.param.name; });

TEST(SafetensorsReader, NeedsEightBytes) {
  const Result<Safetensors> file = parse_safetensors(as_bytes("1234567"));
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find("at least 8 bytes, got 7"), std::string::npos);
}

TEST(SafetensorsReader, EveryPrefixOfAFileIsAnError) {
  const RawFile whole = {one_tensor("F32", "[2]", "[0,8]"), "abcdefgh"};
  ASSERT_TRUE(parse(whole).ok());
  const std::string bytes = whole.bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<char> prefix(bytes.begin(), bytes.begin() + static_cast<long>(size));
    EXPECT_FALSE(parse_safetensors(std::as_bytes(std::span(prefix))).ok()) << size;
  }
}

TEST(SafetensorsReader, AlignsTensorsThatTheFileDoesNot) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}})";
  const float value = 1.5f;
  RawFile raw = {header, "abc" + std::string(reinterpret_cast<const char*>(&value), 4)};
  const Result<Safetensors> file = parse(raw);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const HostTensor* b = file->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b->data()) % HostTensor::kAlignment, 0u);
  EXPECT_EQ(*b->as<float>(), value);
  EXPECT_EQ(file->find("c"), nullptr);
}

TEST(SafetensorsReader, ReadsTensorsWithoutEntries) {
  const RawFile raw = {R"({"a":{"dtype":"F32","shape":[3,0,9223372036854775807],)"
                       R"("data_offsets":[0,0]}})",
                       ""};
  const Result<Safetensors> file = parse(raw);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->find("a")->view().numel(), 0);
}

TEST(SafetensorsReader, NamesThePath) {
  EXPECT_EQ(read_safetensors("/no/such/file").status().message(), "/no/such/file: no such file");
  const std::string folder = ::testing::TempDir();
  EXPECT_EQ(read_safetensors(folder).status().message(), folder + ": must be a regular file");
}

class SafetensorsFile : public ::testing::Test {
 protected:
  std::string path_ = ::testing::TempDir() + "tilegate_io_" +
                      ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                      ".safetensors";
  void TearDown() override { std::filesystem::remove(path_); }
};

TEST_F(SafetensorsFile, RoundTripKeepsEveryDtype) {
  constexpr DType kDtypes[] = {DType::kBool,  DType::kUInt8, DType::kFloat16, DType::kBFloat16,
                               DType::kInt32, DType::kInt64, DType::kFloat32};
  const std::int64_t shape[] = {3, 5};
  std::map<std::string, HostTensor, std::less<>> tensors;
  std::map<std::string, TensorView, std::less<>> views;
  for (const DType dtype : kDtypes) {
    HostTensor tensor = HostTensor::allocate(dtype, shape).value();
    for (std::size_t i = 0; i < tensor.bytes(); ++i) tensor.data()[i] = std::byte(i * 7 + 1);
    views.emplace(to_string(dtype), tensor.view());
    tensors.emplace(to_string(dtype), std::move(tensor));
  }
  ASSERT_TRUE(write_safetensors(path_, views, {{"note", "a \"quoted\" text"}}).ok());
  const Result<Safetensors> file = read_safetensors(path_);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->metadata.at("note"), "a \"quoted\" text");
  ASSERT_EQ(file->tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const HostTensor* read = file->find(name);
    ASSERT_NE(read, nullptr) << name;
    EXPECT_EQ(read->view().dtype, tensor.view().dtype);
    EXPECT_EQ(read->view().shape, tensor.view().shape);
    EXPECT_EQ(std::memcmp(read->data(), tensor.data(), tensor.bytes()), 0) << name;
  }
}

TEST_F(SafetensorsFile, WriterRefusesViewsWithGaps) {
  float values[4] = {};
  TensorView view = TensorView::packed(values, DType::kFloat32, {2, 1});
  view.strides[0] = 2;
  const Status status = write_safetensors(path_, {{"a", view}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

TEST_F(SafetensorsFile, WriterSaysWhenItCannotWrite) {
  float value = 0;
  const Status status = write_safetensors(
      "/no/such/folder/file", {{"a", TensorView::packed(&value, DType::kFloat32, {1})}});
  EXPECT_EQ(status.code(), StatusCode::kIo);
}

TEST(HostTensorTest, RefusesShapesThatDoNotFit) {
  const std::int64_t negative[] = {-1};
  EXPECT_EQ(HostTensor::allocate(DType::kUInt8, negative).status().code(),
            StatusCode::kInvalidArgument);
  const std::int64_t past[] = {INT64_MAX, INT64_MAX};
  EXPECT_EQ(HostTensor::allocate(DType::kFloat32, past).status().code(),
            StatusCode::kInvalidArgument);
  const std::int64_t large[] = {std::int64_t{1} << 57};
  EXPECT_EQ(HostTensor::allocate(DType::kUInt8, large).status().code(),
            StatusCode::kOutOfWorkspace);
}

}  // namespace
}  // namespace tilegate::io::testing
