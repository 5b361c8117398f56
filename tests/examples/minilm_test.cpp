// SPDX-License-Identifier: Apache-2.0
// Laws of the MiniLM example that need a look inside: how text is cut into words, how sentences
// become tokens, and that a sentence's attention has the same bits in a batch and alone. Numbers
// are compared with another implementation in minilm_numpy.py.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/minilm/attention.h"
#include "examples/minilm/model.h"
#include "examples/minilm/text/words.h"

namespace minilm {
namespace {

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  for (const std::u32string& word : split_words(text)) out.push_back(to_utf8(word));
  return out;
}

using Words = std::vector<std::string>;

TEST(Text, SplitsAtSpacesAndAroundPunctuation) {
  EXPECT_EQ(words(""), Words{});
  EXPECT_EQ(words(" \t\r\n "), Words{});
  EXPECT_EQ(words("Don't stop."), (Words{"don", "'", "t", "stop", "."}));
  EXPECT_EQ(words("a+b=$5"), (Words{"a", "+", "b", "=", "$", "5"}));
  // Guillemets and an ellipsis are punctuation, a pound sign is a symbol and stays in its word.
  EXPECT_EQ(words("\u00AB\u00A39\u00BB\u2026"), (Words{"\u00AB", "\u00A39", "\u00BB", "\u2026"}));
}

TEST(Text, DropsAccentsWhetherComposedOrNot) {
  EXPECT_EQ(words("\u00C9tude"), Words{"etude"});
  EXPECT_EQ(words("E\u0301tude"), Words{"etude"});
  EXPECT_EQ(words("\u0130stanbul \u00C5NGSTR\u00D6M"), (Words{"istanbul", "angstrom"}));
  EXPECT_EQ(words("q\u0323\u0307 \u1EAD"), (Words{"q", "a"}));
  EXPECT_EQ(words("stra\u00DFe \u0141\u00F3d\u017A"), (Words{"stra\u00DFe", "\u0142odz"}));
}

TEST(Text, SetsIdeographsApartButNotKanaOrHangul) {
  EXPECT_EQ(words("\u5317\u4EACabc"), (Words{"\u5317", "\u4EAC", "abc"}));
  EXPECT_EQ(words("\u30AB\u30BF\u30AB\u30CA"), Words{"\u30AB\u30BF\u30AB\u30CA"});
  EXPECT_EQ(words("\uD55C"), Words{"\u1112\u1161\u11AB"});  // decomposed, as the vocabulary has it
}

TEST(Text, DropsWhatIsNoTextAndKeepsWhatIsUnknown) {
  EXPECT_EQ(words("a\u200Bb\u00ADc\x07"), Words{"abc"});
  EXPECT_EQ(words("a\xFF\xC3"), Words{"a"});  // not UTF-8
  EXPECT_EQ(words("a\u00A0b\u2028c"), (Words{"a", "b", "c"}));
  EXPECT_EQ(words("\U0001F984!"), (Words{"\U0001F984", "!"}));
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

class MiniLm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(MINILM_MODEL_DIR "/model.safetensors")) {
      GTEST_SKIP() << "no model.safetensors in " MINILM_MODEL_DIR;
    }
  }

  static std::vector<std::string> sentences() {
    return {"",
            "hello",
            "A man is eating a piece of bread.",
            "\u5317\u4EAC \U0001F984 caf\u00E9",
            repeated("the quick brown fox jumps over the lazy dog ", 16),
            "Interest rates went up again this week.",
            repeated("unbelievably long-winded sentences overflow ", 60)};
  }
};

// Sentences of a packed projection in another order.
struct Projection {
  Matrix qkv;                           // [T, 3 * hidden]
  std::vector<std::int32_t> indptr{0};  // [sentences + 1]
};

Projection reversed(const Projection& in) {
  Projection out{Matrix(in.qkv.rows(), in.qkv.cols())};
  for (std::size_t i = in.indptr.size() - 1; i > 0; --i) {
    const std::int32_t length = in.indptr[i] - in.indptr[i - 1];
    out.qkv.middleRows(out.indptr.back(), length) = in.qkv.middleRows(in.indptr[i - 1], length);
    out.indptr.push_back(out.indptr.back() + length);
  }
  return out;
}

// Attention over the batch against a call for each sentence.
void expect_bits_of_each_alone(tilegate::Context& context, const AttentionSetup& setup,
                               const Projection& in) {
  const Matrix packed = attend(context, setup, in.qkv, in.indptr);
  for (std::size_t i = 0; i + 1 < in.indptr.size(); ++i) {
    const std::int32_t first = in.indptr[i];
    const std::int32_t length = in.indptr[i + 1] - first;
    const Matrix alone = attend(context, setup, in.qkv.middleRows(first, length), {0, length});
    const Matrix in_batch = packed.middleRows(first, length);
    ASSERT_EQ(alone.size(), in_batch.size());
    EXPECT_TRUE(in_batch.allFinite());
    EXPECT_GT(in_batch.norm(), 0.0f);
    const std::size_t bytes = static_cast<std::size_t>(alone.size()) * sizeof(float);
    EXPECT_EQ(std::memcmp(alone.data(), in_batch.data(), bytes), 0) << "sentence " << i;
  }
}

TEST_F(MiniLm, AttentionOfASentenceHasTheSameBitsInABatchAndAlone) {
  const Model model(MINILM_MODEL_DIR);
  tilegate::Context context = tilegate::Context::create().value();
  const Embeddings packed =
      model.embed(context, sentences(), Batching::kPacked, tilegate::Backend::kCpu);
  const Projection real{packed.trace.qkv, packed.batch.indptr};
  for (tilegate::Backend backend : {tilegate::Backend::kReference, tilegate::Backend::kCpu}) {
    const AttentionSetup setup{.heads = model.config().heads,
                               .head_dim = model.config().head_dim(),
                               .batch_invariant = true,
                               .backend = backend};
    expect_bits_of_each_alone(context, setup, real);
    expect_bits_of_each_alone(context, setup, reversed(real));
  }
}

TEST_F(MiniLm, PackedEmbeddingsEqualThoseOneByOne) {
  constexpr float kMinCosine = 0.99999f;
  const Model model(MINILM_MODEL_DIR);
  tilegate::Context context = tilegate::Context::create().value();
  const Matrix packed =
      model.embed(context, sentences(), Batching::kPacked, tilegate::Backend::kAuto).vectors;
  const Matrix alone =
      model.embed(context, sentences(), Batching::kOneByOne, tilegate::Backend::kAuto).vectors;
  for (Eigen::Index i = 0; i < packed.rows(); ++i) {
    EXPECT_NEAR(packed.row(i).norm(), 1.0f, 1e-5f);
    EXPECT_GE(packed.row(i).dot(alone.row(i)), kMinCosine) << "sentence " << i;
  }
}

TEST_F(MiniLm, TokensFollowTheVocabulary) {
  const Tokenizer tokenizer(MINILM_MODEL_DIR "/vocab.txt", 256);
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(tokenizer.encode(""), (Ids{101, 102}));
  EXPECT_EQ(tokenizer.encode("Hello, world!"), (Ids{101, 7592, 1010, 2088, 999, 102}));
  EXPECT_EQ(tokenizer.encode("unaffable"), (Ids{101, 14477, 20961, 3468, 102}));
  EXPECT_EQ(tokenizer.encode("\U0001F984"), (Ids{101, 100, 102}));  // [UNK]
  EXPECT_EQ(tokenizer.encode(std::string(101, 'a')), (Ids{101, 100, 102}));
  EXPECT_NE(tokenizer.encode(std::string(100, 'a')), (Ids{101, 100, 102}));
}

TEST_F(MiniLm, LongSentencesAreCutAtTheModelsLimit) {
  const Tokenizer tokenizer(MINILM_MODEL_DIR "/vocab.txt", 256);
  const std::vector<std::int32_t> cut = tokenizer.encode(repeated("word ", 400));
  EXPECT_EQ(cut.size(), 256u);
  EXPECT_EQ(cut.front(), 101);
  EXPECT_EQ(cut.back(), 102);
  EXPECT_EQ(tokenizer.encode(repeated("word ", 254)), cut);
  EXPECT_EQ(tokenizer.encode(repeated("word ", 253)).size(), 255u);
}

TEST_F(MiniLm, AMissingModelIsAnErrorThatNamesTheFile) {
  try {
    Model("no/such/folder");
    FAIL() << "a model came out of nothing";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "cannot read no/such/folder/config.json");
  }
}

}  // namespace
}  // namespace minilm
