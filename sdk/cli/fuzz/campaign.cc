#include "sdk/cli/fuzz/campaign.h"

#include <cctype>
#include <chrono>
#include <cmath>
#include <complex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/cli/clock.h"
#include "sdk/cli/fuzz/explain.h"
#include "sdk/cli/fuzz/shrink.h"

namespace backplane::cli::fuzz {
namespace {

// Messages that differ only in numbers and names count as equal.
std::string WithoutNumbers(absl::string_view message) {
  std::string out;
  for (const char c : message.substr(0, 160)) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      if (out.empty() || out.back() != '#') out.push_back('#');
    } else {
      out.push_back(c == '\n' ? ' ' : c);
    }
  }
  return out;
}

// Describes an outcome; empty if it is correct.
struct Verdict {
  std::string what;
  std::vector<std::string> signs;
};

Verdict ClassifyOutcome(const BoundedValue& meant, const Outcome& outcome, Power* power = nullptr) {
  Verdict v;
  switch (outcome.kind) {
    case Outcome::Kind::kCrashed:
    case Outcome::Kind::kTimedOut:
      v.what = absl::StrCat(outcome.kind == Outcome::Kind::kCrashed ? "crash: " : "timeout: ", outcome.message);
      v.signs = {outcome.kind == Outcome::Kind::kCrashed ? "crash" : "timeout"};
      return v;
    case Outcome::Kind::kRefused:
      v.what = absl::StrCat("refused: ", outcome.message);
      v.signs = {"refused"};
      return v;
    case Outcome::Kind::kNotExpressible:
      return v;
    case Outcome::Kind::kResults:
      break;
  }
  const std::optional<Mismatch> m = CompareResults(meant, outcome.results, power);
  if (!m.has_value()) return v;
  v.what = m->ToString();
  if (m->nan) v.signs.push_back("nan");
  if (m->infinite) v.signs.push_back("inf");
  if (m->zero_sign) v.signs.push_back("zero-sign");
  if (m->subnormal) v.signs.push_back("subnormal");
  if (v.signs.empty()) v.signs.push_back("values");
  return v;
}

// Whether two failures are of the same kind, so that shrinking does not change from one difference to another.
bool SameSort(const Verdict& a, const Verdict& b) {
  if (a.signs.empty() || b.signs.empty()) return false;
  if (a.signs[0] == "refused" || b.signs[0] == "refused") {
    // The plugin's name and the subject precede the message itself.
    constexpr size_t kTold = 90;
    return a.signs == b.signs && WithoutNumbers(a.what).substr(0, kTold) == WithoutNumbers(b.what).substr(0, kTold);
  }
  return a.signs == b.signs;
}

// Whether an argument or a constant of the program contains a subnormal number.
bool ReadsSubnormals(const FuzzProgram& program) {
  auto holds = [](const Literal& l) {
    const PrimitiveType type = l.shape().element_type();
    if (!l.shape().IsArray() || !IsFloat(ComplexPart(type))) return false;
    const double least = ComputeUnitInLastPlace(type, 0) / GetEpsilon(type);
    for (int64_t i = 0; i < l.num_elements(); ++i) {
      const std::complex<double> v = IsComplex(type) ? l.GetAsComplex(i) : l.GetAsDouble(i);
      for (const double part : {std::abs(v.real()), std::abs(v.imag())}) {
        if (part > 0 && part < least) return true;
      }
    }
    return false;
  };
  for (const Literal& a : program.arguments) {
    if (holds(a)) return true;
  }
  for (const Computation* c : program.module->PostOrder()) {
    for (const auto& i : c->instructions()) {
      if (i->Is(Opcode::kConstant) && holds(i->literal())) return true;
    }
  }
  return false;
}

struct Running {
  FuzzProgram program;
  BoundedValue meant;
  Form form = Form::kHlo;
  bool active = false;
};

}  // namespace

absl::StatusOr<BoundedValue> EvaluateMeaning(const FuzzProgram& program) {
  if (!program.schedule.empty()) return BoundSchedule(program, *program.module);
  return BoundEntry(*program.module, program.arguments);
}

CampaignResult RunCampaign(std::vector<Lane>& lanes, const CampaignOptions& options,
                           const std::function<void(const Finding&)>& found,
                           const std::function<void(int64_t)>& progress) {
  CampaignResult result;
  const double start = Now();
  std::vector<Running> running(lanes.size());
  int64_t next = 0, unknown = 0;
  auto finished = [&] {
    return next >= options.count || unknown >= options.most_findings ||
           (options.minutes > 0 && Now() - start > options.minutes * 60);
  };

  auto begin = [&](size_t lane) {
    Running& r = running[lane];
    r.active = false;
    while (!finished()) {
      const uint64_t seed = static_cast<uint64_t>(options.seed + next++);
      absl::StatusOr<FuzzProgram> program = GenerateProgram(seed, options.generator);
      absl::StatusOr<BoundedValue> meant = program.ok() ? EvaluateMeaning(*program) : program.status();
      if (!meant.ok()) {
        // A program that the generator made and the evaluator cannot run would be a defect of this tool.
        ++result.generator_failures;
        continue;
      }
      r.program = *std::move(program);
      r.meant = *std::move(meant);
      r.form = options.forms[seed % options.forms.size()];
      r.active = true;
      ++result.programs;
      result.operations += CountOperations(*r.program.module);
      AddCoverage(*r.program.module, result.coverage);
      for (const std::unique_ptr<Runner>& runner : lanes[lane]) runner->Send(r.program, r.form);
      return;
    }
  };

  auto end = [&](size_t lane) {
    Running& r = running[lane];
    std::vector<Outcome> outcomes;
    result.waited.resize(std::max(result.waited.size(), lanes[lane].size()));
    for (size_t k = 0; k < lanes[lane].size(); ++k) {
      const double before = Now();
      outcomes.push_back(lanes[lane][k]->Receive());
      result.waited[k] += Now() - before;
    }
    // A program that one form cannot express is sent in the other form, if that is requested.
    for (size_t k = 0; k < outcomes.size(); ++k) {
      if (outcomes[k].kind != Outcome::Kind::kNotExpressible) continue;
      bool sent = false;
      for (const Form form : options.forms) {
        if (form == r.form) continue;
        r.form = form;
        sent = true;
      }
      if (!sent) {
        ++result.not_written;
        return;
      }
      for (size_t o = 0; o < outcomes.size(); ++o) {
        outcomes[o] = lanes[lane][o]->Run(r.program, r.form);
      }
      break;
    }
    bool agrees = true;
    for (size_t k = 0; k < outcomes.size(); ++k) {
      Runner& runner = *lanes[lane][k];
      const Verdict verdict = ClassifyOutcome(r.meant, outcomes[k], k == 0 ? &result.power : nullptr);
      if (verdict.what.empty()) continue;
      agrees = false;
      if (outcomes[k].kind == Outcome::Kind::kRefused) {
        const std::string key = absl::StrCat(runner.name(), ": ", WithoutNumbers(outcomes[k].message));
        result.refusal_seeds.emplace(key, r.program.seed);
        if (++result.refusals[key] > 1) continue;  // one example of each is enough
      }
      Finding finding;
      finding.seed = r.program.seed;
      finding.runner = runner.name();
      finding.form = r.form;
      finding.what = verdict.what;
      finding.signs = verdict.signs;
      if (ReordersEmptyResult(r.program)) finding.signs.push_back("empty-result");
      if (ChainsNarrowFloats(r.program)) finding.signs.push_back("narrow-chain");
      Outcome shown = outcomes[k];  // of the smallest program
      // A failure with a known description needs no smaller program.
      const KnownDifference* described =
          FindKnown(options.known, runner.name(), *r.program.module, finding.signs, finding.what);
      // Nor does a difference whose values are explained.
      const KnownDifference* computed = outcomes[k].kind == Outcome::Kind::kResults && !options.known.empty()
                                            ? FindKnown(options.known, runner.name(), *r.program.module,
                                                        FindExplanations(r.program, outcomes[k].results), finding.what)
                                            : nullptr;
      const bool told = (described != nullptr && !described->message.empty()) || computed != nullptr;
      const double shrink_until = Now() + options.shrink_seconds;
      ShrinkResult shrunk = Shrink(
          r.program,
          [&](const FuzzProgram& candidate) {
            if (Now() > shrink_until) return false;
            const absl::StatusOr<BoundedValue> meant = EvaluateMeaning(candidate);
            if (!meant.ok()) return false;
            const Outcome outcome = runner.Run(candidate, r.form);
            const Verdict v = ClassifyOutcome(*meant, outcome);
            if (v.what.empty() || !SameSort(v, verdict)) return false;
            finding.what = v.what;
            shown = outcome;
            return true;
          },
          told ? 0 : options.shrink_tries);
      finding.program = std::move(shrunk.program);
      if (ReadsSubnormals(finding.program)) finding.signs.push_back("subnormal-input");
      if (computed == nullptr && shown.kind == Outcome::Kind::kResults) {
        for (std::string& sign : FindExplanations(finding.program, shown.results))
          finding.signs.push_back(std::move(sign));
      }
      const KnownDifference* known =
          computed != nullptr
              ? computed
              : FindKnown(options.known, runner.name(), *finding.program.module, finding.signs, finding.what);
      if (known != nullptr) {
        finding.known = known->id;
      } else {
        ++unknown;
      }
      // A program with wrong results may have overwritten memory, so that a later program would crash. This does not
      // apply if every value is explained.
      if (outcomes[k].kind == Outcome::Kind::kResults && !told) runner.ReplaceProcess();
      if (found) found(finding);
      result.findings.push_back(std::move(finding));
    }
    if (agrees) ++result.agreeing;
    if (progress) progress(result.programs);
  };

  for (size_t lane = 0; lane < lanes.size(); ++lane) begin(lane);
  for (bool any = true; any;) {
    any = false;
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      if (!running[lane].active) continue;
      any = true;
      end(lane);
      begin(lane);
    }
  }
  result.seconds = Now() - start;
  return result;
}

}  // namespace backplane::cli::fuzz
