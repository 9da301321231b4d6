// Claims: the operations for which the author of a mixed backend (mixed_backend.h) has kernels.
//
//   Claims claims;
//   claims.Add({"matmul", Opcode::kDot, {PrimitiveType::kF32}, &IsMatrixProduct, &MakeMatmul});
//
// Each instruction is offered to the claims of its opcode, in the order in which they were added. The first claim that
// accepts it supplies the kernel. The evaluator runs the instructions that no claim accepts. Instructions with dynamic
// dimensions, with arrays without elements, or without any array are not offered, so kernels need not handle them.
//
// A claim on an instruction that calls computations (while, conditional, fusion, reduce, ...) includes everything in
// those computations. `AddRegion` creates such instructions: it groups adjacent instructions into fusions.
#ifndef BACKPLANE_SDK_BACKEND_MIXED_CLAIMS_H_
#define BACKPLANE_SDK_BACKEND_MIXED_CLAIMS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/module.h"

namespace backplane::mixed {

// The arrays of one kernel call: device addresses (host addresses without a DeviceMemory) of dense row-major arrays.
// Tuples are given as their leaves, in order. The memory of a result does not overlap that of an operand.
struct KernelArrays {
  int32_t device = 0;
  std::vector<const void*> operands;
  std::vector<void*> results;
};

// Runs one instruction and returns when its results are written. Must be thread-safe. An error fails the program; the
// name of the instruction is put before its message.
using Kernel = std::function<absl::Status(const KernelArrays&)>;

struct Claim {
  std::string kernel;  // the name of the kernel in the compile log
  Opcode opcode{};
  // Every array that the instruction reads or writes must have one of these element types. Empty: any type.
  std::vector<PrimitiveType> types;
  // Returns OK if the kernel can run the instruction, else the reason for the compile log. `type` and `shape` are those
  // of the result (the first array of a tuple). Null: the kernel can run all instructions.
  std::function<absl::Status(const Instruction& op, PrimitiveType type, const Shape& shape)> supports;
  // Creates the kernel for an instruction, once, when the program is compiled or deserialized. The instruction outlives
  // the kernel. Unimplemented means that the claim does not accept the instruction. Any other error fails the
  // compilation.
  std::function<absl::StatusOr<Kernel>(const Instruction& op)> make;
};

// A rule that groups instructions: adjacent instructions for which `joins` returns true become a fusion with one
// result. The fusion is then offered to the claims for Opcode::kFusion. If no claim accepts it, its instructions run
// one by one.
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

// The kernels of a program.
struct Assignment {
  absl::flat_hash_map<const Instruction*, Kernel> kernels;
  // The instructions that the evaluator runs. A loop, branch, call or fusion without any kernel inside is listed as one
  // instruction.
  std::vector<const Instruction*> evaluated;
  std::string log;  // one line for each instruction that was offered to a claim, then a summary of the shares
};

// Offers the instructions to the claims: those of the entry computation, and those of the computations of loops,
// branches, calls and fusions that are not claimed themselves.
absl::StatusOr<Assignment> Assign(const Module& module, const Claims& claims);

// Creates the fusions of the regions and returns their number.
absl::StatusOr<int64_t> FormRegions(Module* module, const std::vector<Region>& regions);

// Whether the interpreter runs the computations of this operation instruction by instruction.
bool RunsComputations(Opcode opcode);

}  // namespace backplane::mixed

#endif  // BACKPLANE_SDK_BACKEND_MIXED_CLAIMS_H_
