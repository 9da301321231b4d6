// Combines all-reduces of one computation that do not depend on each other and have the same groups and operation into
// one with several operands, so that the devices of a group rendezvous once instead of once per array.
#ifndef BACKPLANE_CORE_PASSES_COMBINE_COLLECTIVES_H_
#define BACKPLANE_CORE_PASSES_COMBINE_COLLECTIVES_H_

#include "core/passes/pass.h"

namespace backplane {

class CombineAllReduces : public Pass {
 public:
  // `max_bytes` bounds the operands of a combined all-reduce. All of them stay live until the last one is computed.
  explicit CombineAllReduces(int64_t max_bytes = int64_t{32} << 20) : max_bytes_(max_bytes) {}
  absl::string_view name() const override { return "combine-all-reduces"; }
  bool IsRequired() const override { return false; }
  absl::StatusOr<bool> Run(Module* module) override;

 private:
  int64_t max_bytes_;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_COMBINE_COLLECTIVES_H_
