// Runs every case file in the core: imports its program and evaluates it. Compares our semantics with those of the
// specification.
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "conformance/kit/case_file.h"
#include "conformance/kit/case_profile.h"
#include "core/eval/evaluator.h"
#include "core/import/import.h"
#include "gtest/gtest.h"

namespace backplane {
namespace {

using conformance::Array;
using conformance::Case;
using conformance::Failure;
using conformance::HostTransfer;
using conformance::Outcome;

absl::StatusOr<Literal> ToLiteral(const Array& array) {
  const std::optional<PrimitiveType> type = PrimitiveTypeFromName(conformance::Info(array.type).name);
  if (!type) return absl::InternalError("no such type");
  return Literal::FromBytes(
      Shape(*type, array.dims),
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(array.data.data()), array.data.size()));
}

absl::Status AppendArrays(const Literal& literal, std::vector<Array>* out) {
  if (literal.shape().IsTuple()) {
    for (const Literal& element : literal.elements()) {
      if (absl::Status s = AppendArrays(element, out); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  const std::optional<conformance::ElementType> type =
      conformance::ElementTypeFromName(Name(literal.shape().element_type()));
  if (!type) return absl::InternalError(absl::StrCat("a result of type ", literal.shape().ToString()));
  const absl::Span<const int64_t> dims = literal.shape().dimensions();
  Array array{*type, std::vector<int64_t>(dims.begin(), dims.end()), std::string(literal.byte_size(), '\0')};
  if (!array.data.empty()) std::memcpy(array.data.data(), literal.bytes(), array.data.size());
  out->push_back(std::move(array));
  return absl::OkStatus();
}

// The host side of infeeds, outfeeds, sends and receives, as listed in the case.
class Host {
 public:
  explicit Host(const Case& c) : transfers_(c.transfers) {}

  absl::StatusOr<Literal> Transfer(const Instruction& op, absl::Span<const Literal* const> operands) {
    const HostTransfer::Kind kind = op.opcode() == Opcode::kInfeed    ? HostTransfer::kInfeed
                                    : op.opcode() == Opcode::kOutfeed ? HostTransfer::kOutfeed
                                    : op.opcode() == Opcode::kSend    ? HostTransfer::kSend
                                                                      : HostTransfer::kRecv;
    if (kind == HostTransfer::kInfeed || kind == HostTransfer::kRecv) {
      const Shape& want = op.shape().tuple_shapes(0);
      if (!want.IsTuple()) return Next(kind, op);
      std::vector<Literal> elements;
      for (size_t i = 0; i < want.tuple_shapes().size(); ++i) {
        absl::StatusOr<Literal> element = Next(kind, op);
        if (!element.ok()) return element.status();
        elements.push_back(*std::move(element));
      }
      return Literal::Tuple(std::move(elements));
    }
    std::vector<Array> sent;
    if (absl::Status s = AppendArrays(*operands[0], &sent); !s.ok()) return s;
    for (const Array& array : sent) {
      if (absl::Status s = Check(kind, op); !s.ok()) return s;
      if (absl::Status s = conformance::Compare(transfers_[next_++].value, array); !s.ok()) return s;
    }
    return Literal::Token();
  }
  bool done() const { return next_ == transfers_.size(); }

 private:
  absl::Status Check(HostTransfer::Kind kind, const Instruction& op) const {
    if (next_ == transfers_.size())
      return absl::FailedPreconditionError(absl::StrCat(op.name(), ": a transfer too many"));
    if (transfers_[next_].kind != kind || transfers_[next_].channel != op.attrs().GetInt(AttrId::kChannelId, 0)) {
      return absl::FailedPreconditionError(absl::StrCat(op.name(), ": another transfer was expected"));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<Literal> Next(HostTransfer::Kind kind, const Instruction& op) {
    if (absl::Status s = Check(kind, op); !s.ok()) return s;
    return ToLiteral(transfers_[next_++].value.value);
  }

  const std::vector<HostTransfer>& transfers_;
  size_t next_ = 0;
};

Outcome Failed(absl::string_view what) { return {Outcome::kFail, std::string(what), {}}; }

Outcome Refused(const Case& c, Failure::Stage stage, const absl::Status& s) {
  if (c.fails && c.fails->stage == stage) {
    if (c.fails->label.empty() || absl::StrContains(s.message(), absl::StrCat("[", c.fails->label, "]"))) return {};
    return Failed(absl::StrCat("refused without [", c.fails->label, "]: ", s.ToString()));
  }
  return Failed(s.ToString());
}

Outcome RunCase(const Case& c) {
  const absl::StatusOr<std::unique_ptr<Module>> module = ImportProgram("mlir", c.program);
  if (!module.ok()) return Refused(c, Failure::kCompile, module.status());
  if (c.fails && c.fails->stage == Failure::kCompile) return Failed("was accepted");
  std::vector<Literal> arguments;
  for (const Array& input : c.inputs[0]) {
    absl::StatusOr<Literal> literal = ToLiteral(input);
    if (!literal.ok()) return Failed(literal.status().ToString());
    arguments.push_back(*std::move(literal));
  }
  Host host(c);
  EvaluatorHooks hooks;
  hooks.transfer = [&](const Instruction& op, absl::Span<const Literal* const> operands) {
    return host.Transfer(op, operands);
  };
  const absl::StatusOr<Literal> result = Evaluate(**module, arguments, hooks);
  if (!result.ok()) return Refused(c, Failure::kRun, result.status());
  if (c.fails) return Failed("ran");
  if (!host.done()) return Failed("not all of the host's transfers took place");
  std::vector<Array> outputs;
  if (absl::Status s = AppendArrays(*result, &outputs); !s.ok()) return Failed(s.ToString());
  if (outputs.size() != c.outputs[0].size()) {
    return Failed(absl::StrCat(outputs.size(), " results, expected ", c.outputs[0].size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const absl::Status s = conformance::Compare(c.outputs[0][i], outputs[i]);
    if (!s.ok()) return Failed(absl::StrCat("result ", i, ": ", s.message()));
  }
  return {};
}

TEST(CaseFiles, TheEvaluatorGivesWhatTheyExpect) {
  const std::string folder = absl::StrCat(BACKPLANE_SOURCE_DIR, "/conformance/");
  const absl::StatusOr<std::vector<Case>> cases = conformance::ReadCaseFolder(absl::StrCat(folder, "cases/ops"));
  ASSERT_TRUE(cases.ok()) << cases.status();
  absl::StatusOr<conformance::CaseProfile> profile =
      conformance::CaseProfile::Read(absl::StrCat(folder, "cases/known/evaluator.txt"));
  ASSERT_TRUE(profile.ok()) << profile.status();
  conformance::CaseTally tally(&*profile);
  int alone = 0;
  for (const Case& c : *cases) {
    if (c.devices() > 1) continue;  // the evaluator is one device; the plugins run these cases
    ++alone;
    const std::string line = tally.Add(c, RunCase(c));
    EXPECT_TRUE(line.empty()) << line;
  }
  for (const std::string& line : tally.Finish(/*complete=*/true)) ADD_FAILURE() << line;
  EXPECT_GT(alone, 1000);
  std::printf("%s\n", tally.Summary().c_str());
}

}  // namespace
}  // namespace backplane
