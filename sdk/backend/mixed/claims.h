// What the author of a mixed backend (mixed_backend.h) runs himself: for each operation a kernel, where it can.
//
//   Claims claims;
//   claims.Add({"matmul", Opcode::kDot, {PrimitiveType::kF32}, &IsMatrixProduct, &MakeMatmul});
//
// An instruction is offered to the claims of its opcode in the order in which they were added; the first that takes it
// runs it, and the evaluator runs what nobody takes. Nothing is offered that has a dimension of dynamic size, an array
// without elements, or no array at all: a kernel need not think of them.
//
// An instruction with computations of its own (while, conditional, fusion, reduce, ...) is claimed with all they hold.
// `AddRegion` makes such instructions: neighbours that may be computed together become one fusion.
#ifndef BACKPLANE_SDK_BACKEND_MIXED_CLAIMS_H_
#define BACKPLANE_SDK_BACKEND_MIXED_CLAIMS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/module.h"

namespace backplane::mixed {

// Where one run of a kernel finds its arrays: device addresses (host addresses without a DeviceMemory) of dense
// row-major arrays, the leaves of tuples one after the other. A result never lies in an operand's memory.
struct KernelArrays {
  int32_t device = 0;
  std::vector<const void*> operands;
  std::vector<void*> results;
};

// Runs one instruction; returns when its results are written. Called from many threads at once. An error becomes the
// program's, with the instruction's name before it.
using Kernel = std::function<absl::Status(const KernelArrays&)>;

struct Claim {
  std::string kernel;  // its name in the compile log
  Opcode opcode{};
  // Element types: every array the instruction reads or writes must have one of these. Empty: any.
  std::vector<PrimitiveType> types;
  // Whether the kernel takes an instruction whose result has this type and shape (of a tuple: its first array). Not OK:
  // it does not, and the message, which goes to the compile log, says why. Null: it takes all.
  std::function<absl::Status(const Instruction& op, PrimitiveType type, const Shape& shape)> supports;
  // Called once for each instruction taken, when a program is compiled or deserialized; the instruction outlives the
  // kernel. Unimplemented counts as a refusal, any other error is the compilation's.
  std::function<absl::StatusOr<Kernel>(const Instruction& op)> make;
};

// Instructions that are computed together: wherever `joins` says so, neighbours become the computation of one fusion
// with one result, which is then offered to the claims of Opcode::kFusion. A fusion nobody takes is run as its parts.
struct Region {
  std::function<bool(const Instruction& op)> joins;
};

class Claims {
 public:
  void Add(Claim claim) { claims_.push_back(std::move(claim)); }
  void AddRegion(Region region) { regions_.push_back(std::move(region)); }

  const std::vector<Claim>& claims() const { return claims_; }
  const std::vector<Region>& regions() const { return regions_; }

 private:
  std::vector<Claim> claims_;
  std::vector<Region> regions_;
};

// Which kernel runs which instruction of a program, and what there is to say about it.
struct Assignment {
  absl::flat_hash_map<const Instruction*, Kernel> kernels;
  // What the evaluator runs; of loops, branches, calls and fusions without a kernel inside only themselves.
  std::vector<const Instruction*> evaluated;
  std::string log;  // a line for each instruction a claim was asked about, then the shares
};

// Offers every instruction of what runs by itself (the entry, and the bodies of unclaimed loops, branches, calls and
// fusions) to the claims.
absl::StatusOr<Assignment> Assign(const Module& module, const Claims& claims);

// Makes the fusions of the regions; returns how many.
absl::StatusOr<int64_t> FormRegions(Module* module, const std::vector<Region>& regions);

// Whether the interpreter walks through this operation's computations itself.
bool RunsComputations(Opcode opcode);

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_CLAIMS_H_
