// All-reduces of one computation that do not wait for each other, over the same groups and by the same operation,
// become one of several arrays: the devices of a group meet once instead of once for each array.
#ifndef BACKPLANE_CORE_PASSES_COMBINE_COLLECTIVES_H_
#define BACKPLANE_CORE_PASSES_COMBINE_COLLECTIVES_H_

#include "core/passes/pass.h"

namespace backplane {

class CombineAllReduces : public Pass {
 public:
  // `max_bytes`: of the arrays that one comes to have. All of them are kept until the last of them is there.
  explicit CombineAllReduces(int64_t max_bytes = int64_t{32} << 20) : max_bytes_(max_bytes) {}
  absl::string_view name() const override { return "combine-all-reduces"; }
  bool IsRequired() const override { return false; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  int64_t max_bytes_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_COMBINE_COLLECTIVES_H_
