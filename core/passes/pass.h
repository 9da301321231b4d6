// A pass changes a module and says whether it did. Passes are small, named by a verb phrase, deterministic; a second
// run of the same pass changes nothing. Each stands in its own file with golden HLO-text cases beside it.
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
  // Whether the passes behind it, or the plugin, count on it: such a pass is never left out (debugging.h).
  virtual bool IsRequired() const { return true; }
  virtual bool IsPipeline() const { return false; }  // runs other passes and does nothing of its own
  // Whether every loop, branch and call must have computations of its own (UnshareComputations) when it runs.
  virtual bool NeedsSingleCallers() const { return false; }
};

// One pass, its name before its errors; nothing happens where it is disabled. With `debugging.verify` or `verify`, what
// it needs is verified before it runs, and the whole module (VerifyModule) afterwards: what is wrong is an Internal
// error that names the pass and says whether it stood before the pass or after it. Verification costs about as much as
// the passes themselves. A pipeline is not dumped, its passes are.
absl::StatusOr<bool> RunPass(Pass& pass, Module* module, bool verify = false,
                             const PassDebugging& debugging = PassDebugging::OfProcess());
inline absl::StatusOr<bool> RunPass(Pass&& pass, Module* module) { return RunPass(pass, module); }

// No computation that a while, conditional or call runs has a second caller; else Internal [single_caller].
absl::Status VerifySingleCallers(const Module& module);

// Runs passes in order, each once or to a fixed point; keeps what happened.
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
  void set_fixed_point(int max_rounds) { max_rounds_ = max_rounds; }  // repeat all passes until nothing changes
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
