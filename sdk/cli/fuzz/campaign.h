// Runs many programs on two runners, compares the results, and shrinks the programs whose results differ.
#ifndef BACKPLANE_SDK_CLI_FUZZ_CAMPAIGN_H_
#define BACKPLANE_SDK_CLI_FUZZ_CAMPAIGN_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sdk/cli/fuzz/compare.h"
#include "sdk/cli/fuzz/generator.h"
#include "sdk/cli/fuzz/known.h"
#include "sdk/cli/fuzz/runner.h"

namespace backplane::cli::fuzz {

struct CampaignOptions {
  int64_t seed = 1, count = 1000;
  double minutes = 0;  // 0: no limit
  GeneratorOptions generator;
  std::vector<Form> forms = {Form::kStablehlo, Form::kHlo};  // alternated by seed
  int shrink_tries = 300;
  double shrink_seconds = 60;  // for each finding; a program that hangs takes the full time at every try
  int64_t most_findings = 50;  // stops after this number of unknown findings
  std::vector<KnownDifference> known;
};

// A program for which a runner returned a wrong result or an error.
struct Finding {
  uint64_t seed = 0;
  std::string runner;
  Form form = Form::kHlo;
  std::string what;                // the difference, the crash, or the refusal, of the shrunk program
  std::vector<std::string> signs;  // in the terms of known.h
  FuzzProgram program;             // shrunk
  std::string known;               // id of the known difference
};

struct CampaignResult {
  int64_t programs = 0, operations = 0, agreeing = 0, generator_failures = 0, not_written = 0;
  Power power;                                    // of the first runner's comparisons
  std::map<std::string, int64_t> refusals;        // "runner: message" without numbers
  std::map<std::string, uint64_t> refusal_seeds;  // an example of each
  std::vector<Finding> findings;
  Coverage coverage;
  double seconds = 0;
  std::vector<double> waited;  // seconds for the answers of each runner, all lanes together
};

// Runs the programs on `lanes` pairs of runners at the same time. `found` is called for each finding.
using Lane = std::vector<std::unique_ptr<Runner>>;
CampaignResult RunCampaign(std::vector<Lane>& lanes, const CampaignOptions& options,
                           const std::function<void(const Finding&)>& found = nullptr,
                           const std::function<void(int64_t)>& progress = nullptr);

// Returns the meaning of the program (on several devices a tuple of their results), or an error if the evaluator cannot
// run it.
absl::StatusOr<BoundedValue> EvaluateMeaning(const FuzzProgram& program);

}  // namespace backplane::cli::fuzz

#endif  // BACKPLANE_SDK_CLI_FUZZ_CAMPAIGN_H_
