// SPDX-License-Identifier: Apache-2.0
// Prints how alike sentences are: the cosine of every pair of their MiniLM embeddings.
//
//   minilm [--model DIR] [--backend NAME] [--one-by-one] [--dump FILE] [--] [SENTENCE...]
//
// Exit status: 0 ok; 2 usage or an unreadable model; 3 the backend cannot serve the call.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "model.h"

namespace {

using tilegate::Backend;

constexpr int kExitBadInput = 2;
constexpr int kExitUnsupported = 3;

const std::vector<std::string> kDefaultSentences = {
    "A man is eating a piece of bread.",       "Someone has a sandwich for lunch.",
    "The cheetah is running after its prey.",  "A big cat chases an antelope.",
    "Interest rates went up again this week.", "The central bank raised the cost of borrowing.",
};

const std::map<std::string, Backend> kBackends = {
    {"auto", Backend::kAuto}, {"reference", Backend::kReference}, {"cpu", Backend::kCpu}};

struct Arguments {
  std::string model = MINILM_DEFAULT_MODEL;
  std::string backend = "auto";
  bool one_by_one = false;
  std::string dump;
  std::vector<std::string> sentences;
};

void declare(CLI::App& app, Arguments& arguments) {
  app.add_option("--model", arguments.model, "Folder of the model")->capture_default_str();
  app.add_option("--backend", arguments.backend, "Who computes attention")
      ->check(CLI::IsMember(&kBackends))
      ->capture_default_str();
  app.add_flag("--one-by-one", arguments.one_by_one, "Run each sentence as a batch of its own");
  app.add_option("--dump", arguments.dump,
                 "Write token ids, offsets, embeddings and the first layer's attention here");
  app.footer("Sentences to compare follow the options; -- before one that starts with a dash.");
  app.prefix_command();
}

// What follows the options, word for word: as values of an option, CLI11 would split "[a, b]".
std::vector<std::string> sentences_of(const CLI::App& app) {
  std::vector<std::string> sentences = app.remaining();
  if (sentences.empty()) return kDefaultSentences;
  if (sentences.front() == "--") {
    sentences.erase(sentences.begin());
  } else if (sentences.front().starts_with('-')) {
    throw CLI::ExtrasError({sentences.front()});
  }
  return sentences.empty() ? kDefaultSentences : sentences;
}

void print_similarities(const std::vector<std::string>& sentences, const minilm::Matrix& vectors) {
  const minilm::Matrix cosine = vectors * vectors.transpose();
  fmt::print("{:7}", "");
  for (Eigen::Index j = 0; j < cosine.cols(); ++j) fmt::print(" {:>6}", j + 1);
  fmt::print("\n");
  for (Eigen::Index i = 0; i < cosine.rows(); ++i) {
    fmt::print("{:>6} ", i + 1);
    for (Eigen::Index j = 0; j < cosine.cols(); ++j) fmt::print(" {:6.3f}", cosine(i, j));
    fmt::print("  {}\n", sentences[static_cast<std::size_t>(i)]);
  }
}

tilegate::TensorView view(const minilm::Matrix& matrix) {
  return tilegate::TensorView::packed(const_cast<float*>(matrix.data()), tilegate::DType::kFloat32,
                                      {matrix.rows(), matrix.cols()});
}

tilegate::TensorView view(const std::vector<std::int32_t>& values) {
  return tilegate::TensorView::packed(const_cast<std::int32_t*>(values.data()),
                                      tilegate::DType::kInt32,
                                      {static_cast<std::int64_t>(values.size())});
}

void dump(const std::string& path, const minilm::Embeddings& result) {
  tilegate::io::write_safetensors(path, {{"ids", view(result.batch.ids)},
                                         {"indptr", view(result.batch.indptr)},
                                         {"embeddings", view(result.vectors)},
                                         {"layer0.qkv", view(result.trace.qkv)},
                                         {"layer0.attention", view(result.trace.attention)}})
      .throw_if_error();
}

void run(const Arguments& arguments) {
  const minilm::Model model(arguments.model);
  tilegate::Context context = tilegate::Context::create().value();
  const auto batching =
      arguments.one_by_one ? minilm::Batching::kOneByOne : minilm::Batching::kPacked;
  const minilm::Embeddings result =
      model.embed(context, arguments.sentences, batching, kBackends.at(arguments.backend));
  if (!arguments.dump.empty()) dump(arguments.dump, result);
  print_similarities(arguments.sentences, result.vectors);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Similarity of sentences, with attention by tilegate"};
  Arguments arguments;
  declare(app, arguments);
  try {
    app.parse(argc, argv);
    arguments.sentences = sentences_of(app);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitBadInput;
  }
  try {
    run(arguments);
  } catch (const tilegate::Error& error) {
    fmt::print(stderr, "minilm: {}\n", error.what());
    return error.code() == tilegate::StatusCode::kUnsupported ? kExitUnsupported : kExitBadInput;
  } catch (const std::exception& error) {
    fmt::print(stderr, "minilm: {}\n", error.what());
    return kExitBadInput;
  }
  return 0;
}
