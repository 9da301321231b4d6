#include "core/passes/make_reducer.h"

#include <string>
#include <utility>
#include <vector>

#include "core/passes/rewrite.h"

namespace backplane {

Computation* MakeReducer(Module* module, absl::string_view name, Opcode operation, PrimitiveType type) {
  Computation* c = module->AddComputation(std::string(name));
  std::vector<Instruction*> operands;
  for (int64_t k = 0; k < 2; ++k) {
    Attributes number;
    number.Set(AttrId::kParameterNumber, k);
    operands.push_back(Make(c, nullptr, Opcode::kParameter, Shape::Scalar(type), {}, std::move(number)));
  }
  c->set_root(Make(c, nullptr, operation, Shape::Scalar(type), operands));
  return c;
}

}  // namespace backplane
