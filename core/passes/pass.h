// A pass transforms a module and reports whether it changed anything. Passes are small, deterministic and named by a
// verb phrase. A second run changes nothing. Each pass has a file of its own with golden cases in testdata/.
#ifndef BACKPLANE_CORE_PASSES_PASS_H_
#define BACKPLANE_CORE_PASSES_PASS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/module.h"
#include "core/passes/debugging.h"

namespace backplane {

class Pass {
 public:
  virtual ~Pass() = default;
  virtual absl::string_view name() const = 0;  // "fold-constants"
  virtual absl::StatusOr<bool> Run(Module* module) = 0;
  // Whether later passes or the plugin rely on it. Such a pass cannot be disabled (debugging.h).
  virtual bool IsRequired() const { return true; }
  virtual bool IsPipeline() const { return false; }  // runs other passes only
  // Whether each computation that a loop, conditional or call executes must have one caller (UnshareComputations).
  virtual bool NeedsSingleCallers() const { return false; }
};

// Runs one pass unless it is disabled, and prefixes errors with its name. With `debugging.verify` or `verify`, checks
// the requirements of the pass before it and verifies the whole module (VerifyModule) after it. A violation is an
// Internal error that names the pass and tells whether the module was invalid before. Verification costs about as much
// as the passes. Passes are dumped, pipelines are not.
absl::StatusOr<bool> RunPass(Pass& pass, Module* module, bool verify = false,
                             const PassDebugging& debugging = PassDebugging::OfProcess());
inline absl::StatusOr<bool> RunPass(Pass&& pass, Module* module) { return RunPass(pass, module); }

// Returns Internal [single_caller] if a computation that a while, conditional or call executes has a second caller.
absl::Status VerifySingleCallers(const Module& module);

// Runs passes in order, once or to a fixed point, and records statistics.
class PassPipeline : public Pass {
 public:
  explicit PassPipeline(std::string name) : name_(std::move(name)) {}
  absl::string_view name() const override { return name_; }
  template <typename P, typename... Args>
  P& Add(Args&&... args) {
    auto pass = std::make_unique<P>(std::forward<Args>(args)...);
    P& ref = *pass;
    passes_.push_back(std::move(pass));
    return ref;
  }
  const std::vector<std::unique_ptr<Pass>>& passes() const { return passes_; }
  int max_rounds() const { return max_rounds_; }
  bool IsPipeline() const override { return true; }
  void set_verify(bool v) { verify_ = v; }                            // as RunPass
  void set_fixed_point(int max_rounds) { max_rounds_ = max_rounds; }  // repeats all passes until nothing changes
  absl::StatusOr<bool> Run(Module* module) override;
  struct Record {
    std::string pass;
    bool changed;
    double milliseconds;
  };
  const std::vector<Record>& log() const { return log_; }

 private:
  std::string name_;
  std::vector<std::unique_ptr<Pass>> passes_;
  bool verify_ = false;
  int max_rounds_ = 1;
  std::vector<Record> log_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_PASS_H_
