#include "core/eval/scalar_compiler.h"

#include "absl/container/flat_hash_map.h"
#include "core/ops/families/elements.h"

namespace backplane {
namespace {

constexpr int kMaxDepth = 32;  // of nested calls

// Appends the operations of the computation. Returns false if they cannot be expressed.
bool Append(const Computation& c, absl::Span<const int> arguments, int depth, ScalarProgram& program,
            std::vector<int>& results) {
  if (depth > kMaxDepth || c.root() == nullptr) return false;
  absl::flat_hash_map<const Instruction*, std::vector<int>> registers;
  for (const auto& owned : c.instructions()) {
    const Instruction& i = *owned;
    const bool root_tuple = i.Is(Opcode::kTuple) && i.IsRoot();
    if (!i.shape().IsScalar() && !root_tuple && !i.Is(Opcode::kCall)) return false;
    std::vector<int> in;
    for (const Instruction* o : i.operands()) {
      const std::vector<int>& r = registers.at(o);
      if (r.size() != 1) return false;
      in.push_back(r[0]);
    }
    std::vector<int>& out = registers[&i];
    switch (i.opcode()) {
      case Opcode::kParameter:
        out = {arguments[static_cast<size_t>(i.parameter_number())]};
        break;
      case Opcode::kConstant:
        out = {program.AddConstant(i.literal())};
        break;
      case Opcode::kTuple:
        out = in;
        break;
      case Opcode::kReshape:
      case Opcode::kBroadcast:
      case Opcode::kCopy:
      case Opcode::kOptimizationBarrier:
        out = {in[0]};
        break;
      case Opcode::kCall: {
        std::vector<int> r;
        if (!Append(*i.called(0), in, depth + 1, program, r)) return false;
        registers[&i] = std::move(r);
        break;
      }
      default: {
        if (in.empty() || in.size() > 3) return false;
        absl::InlinedVector<PrimitiveType, 3> types;
        for (const Instruction* o : i.operands()) types.push_back(o->shape().element_type());
        auto kernel = ElementwiseKernel::Make(i.opcode(), i.attrs(), types, i.shape().element_type());
        if (!kernel) return false;
        out = {program.AddStep(*kernel, in, i.shape().element_type())};
      }
    }
  }
  results = registers.at(c.root());
  return true;
}

}  // namespace

std::unique_ptr<ScalarProgram> CompileScalarProgram(const Computation& computation) {
  std::vector<PrimitiveType> types;
  std::vector<int> arguments;
  for (const Instruction* p : computation.parameters()) {
    if (!p->shape().IsScalar()) return nullptr;
    arguments.push_back(static_cast<int>(types.size()));
    types.push_back(p->shape().element_type());
  }
  auto program = std::make_unique<ScalarProgram>(types);
  std::vector<int> results;
  if (!Append(computation, arguments, 0, *program, results)) return nullptr;
  program->SetResults(std::move(results));
  return program;
}

std::optional<Opcode> AsBinaryOp(const Computation& computation) {
  const Instruction* root = computation.root();
  if (root == nullptr || computation.parameters().size() != 2 || root->operand_count() != 2 ||
      !root->shape().IsScalar() || !HasBinaryKernel(root->opcode())) {
    return std::nullopt;
  }
  const Instruction *a = computation.parameter(0), *b = computation.parameter(1);
  const bool in_order = root->operand(0) == a && root->operand(1) == b;
  const bool swapped = root->operand(0) == b && root->operand(1) == a;
  if (in_order || (swapped && root->info().Has(kCommutative))) return root->opcode();
  return std::nullopt;
}

}  // namespace backplane
