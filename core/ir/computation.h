// A function: instructions in topological order (operands before users), parameters, one root.
#ifndef BACKPLANE_CORE_IR_COMPUTATION_H_
#define BACKPLANE_CORE_IR_COMPUTATION_H_

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/instruction.h"

namespace backplane {

class Module;

// Everything that makes one instruction; for Computation::Add.
struct InstructionSpec {
  Opcode opcode{};
  Shape shape;  // result; used as given (AddChecked infers and compares)
  std::vector<Instruction*> operands;
  Attributes attrs;
  std::vector<Computation*> called;
  std::shared_ptr<const Literal> literal;  // constants
  std::string name;                        // wished; made unique; empty: the opcode's text
  OpMetadata metadata;
};

class Computation {
 public:
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  Module* parent() const { return module_; }
  bool IsEntry() const;

  Instruction* root() const { return root_; }
  void set_root(Instruction* root) { root_ = root; }
  const std::vector<Instruction*>& parameters() const { return parameters_; }
  Instruction* parameter(int64_t i) const { return parameters_[i]; }
  ProgramShape program_shape() const;
  bool is_fusion() const { return is_fusion_; }
  void set_is_fusion(bool v) { is_fusion_ = v; }
  // The thread an asynchronous computation runs on ("host", "sparsecore"); empty: the main one.
  const std::string& execution_thread() const { return execution_thread_; }
  void set_execution_thread(std::string thread) { execution_thread_ = std::move(thread); }

  // Instructions in topological order. A pass iterates over a copy (Snapshot) when it changes the computation.
  const std::list<std::unique_ptr<Instruction>>& instructions() const { return instructions_; }
  std::vector<Instruction*> Snapshot() const;
  int64_t instruction_count() const { return static_cast<int64_t>(instructions_.size()); }

  // Appends; the shape is taken as it is. Parameters must be added in order 0, 1, 2...
  Instruction* Add(InstructionSpec spec);
  // Appends after inferring and checking the shape: the spec's shape, if valid, must agree with the inferred one.
  absl::StatusOr<Instruction*> AddChecked(InstructionSpec spec);
  // As Add, placed directly before `position` in the order.
  Instruction* AddBefore(Instruction* position, InstructionSpec spec);
  // A copy of `of` (same attributes, metadata, called computations) with other operands and shape.
  Instruction* AddClone(const Instruction* of, const Shape& shape, absl::Span<Instruction* const> operands);

  // Removes an instruction without users that is not the root. Parameters only through RemoveParameter.
  absl::Status Remove(Instruction* instruction);
  // Removes a parameter without users and renumbers the later ones.
  absl::Status RemoveParameter(int64_t number);
  // Removes whatever no root or side effect needs, parameters excepted. Returns the number removed.
  int64_t RemoveDead();
  // Restores topological order after uses were rewired to later instructions. Deterministic.
  void SortTopologically();

  std::string ToString() const;
  // 128-bit digest as 32 hex digits of what it computes, with all that it calls (not names, not metadata).
  std::string Fingerprint() const;

 private:
  friend class Module;
  friend class Instruction;
  Computation() = default;
  std::string name_;
  Module* module_ = nullptr;
  std::list<std::unique_ptr<Instruction>> instructions_;
  std::vector<Instruction*> parameters_;
  Instruction* root_ = nullptr;
  bool is_fusion_ = false;
  std::string execution_thread_;
  uint64_t walks_ = 0;  // over the instructions, which carry the number of the last that came by
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_IR_COMPUTATION_H_
