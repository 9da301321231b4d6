// Rewrite rules, and the driver that applies them to a computation until none applies any more.
//
// A rule examines one instruction and returns a replacement, or null:
//
//   Instruction* ReverseTwice(Instruction* i, Rewriter& to) {
//     Instruction* x;
//     if (!Matches(i, Op(Opcode::kReverse, Op(Opcode::kReverse, Any(&x))))) return nullptr;
//     return i->dimensions() == i->operand(0)->dimensions() ? x : nullptr;
//   }
//   RuleSet rules;
//   rules.Add({{Opcode::kReverse}, "reverse-of-reverse", "reversing twice is nothing", &ReverseTwice});
//   bool changed = Rewriter(computation, rules).Run();
//
// Rules. A rule creates instructions through the Rewriter, which inserts them before `i` and gives them the metadata of
// `i`. Their operands must be new instructions or precede `i`; usually they are operands of `i`, operands of those, and
// so on. A rule changes and removes nothing else. The replacement must have the shape of `i`, apart from layouts. It
// must be simpler by some order that all rules share, or the rules may rewrite forever; the bound below then stops
// them.
//
// Order. All instructions that rules apply to are queued in the order of the computation. For each instruction the
// rules are tried in the order in which they were added, and the first that applies wins. After a replacement the
// following are queued again: the new instructions, the users of the old one (and their users, through users with a
// single operand such as reshape and broadcast), and the only remaining user of an operand of the old one. Rules that
// look further, or past the second operand of another instruction, are caught by another pass over all instructions, of
// which there are at most kMaxRounds. The result does not depend on addresses.
//
// Dead instructions are removed immediately, together with operands that become dead. Instructions with side effects,
// parameters and instructions with control dependencies stay for RemoveDead().
//
// Cost. A replacement costs time proportional to the number of users of the old instruction. The number of replacements
// is bounded by kRewritesPerInstruction times the initial number of instructions. Rules that never settle stop there
// and leave a valid computation.
#ifndef BACKPLANE_CORE_PASSES_REWRITER_H_
#define BACKPLANE_CORE_PASSES_REWRITER_H_

#include <deque>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/passes/rewrite.h"

namespace backplane {

class Rewriter;

struct RewriteRule {
  std::vector<Opcode> opcodes;  // opcodes of the instructions to try the rule on
  const char* name;             // "slice-of-slice"
  const char* summary;          // one line, for the list of rules
  std::function<Instruction*(Instruction* i, Rewriter& to)> apply;
};

class RuleSet {
 public:
  void Add(RewriteRule rule);
  const std::vector<RewriteRule>& rules() const { return rules_; }
  // Indices of the rules for an opcode, in the order in which they were added.
  const std::vector<size_t>& For(Opcode o) const { return by_opcode_[static_cast<size_t>(o)]; }

 private:
  std::vector<RewriteRule> rules_;
  std::vector<std::vector<size_t>> by_opcode_ = std::vector<std::vector<size_t>>(Operations().size());
};

class Rewriter {
 public:
  static constexpr int64_t kRewritesPerInstruction = 32;
  static constexpr int kMaxRounds = 16;

  // `applied`, if given, is resized to the number of rules and counts the applications of each.
  Rewriter(Computation* c, const RuleSet& rules, std::vector<int64_t>* applied = nullptr)
      : c_(c), rules_(rules), applied_(applied) {}

  // Returns whether anything changed.
  bool Run();

  // ---- for rules: these insert instructions before the one that the rule examines

  Computation* computation() const { return c_; }
  Instruction* Make(Opcode opcode, const Shape& shape, std::vector<Instruction*> operands, Attributes attrs = {},
                    std::vector<Computation*> called = {});
  // Clones `of`, with its attributes and metadata, for other operands.
  Instruction* Clone(const Instruction* of, const Shape& shape, std::vector<Instruction*> operands);
  Instruction* Constant(Literal value);
  Instruction* Broadcast(Instruction* x, const Shape& shape, Ints dimensions);
  Instruction* Reshape(Instruction* x, const Shape& shape);  // returns x if it has the shape
  Instruction* Transpose(Instruction* x, Ints permutation);  // returns x if the permutation is the identity
  Instruction* Slice(Instruction* x, SliceConfig slices);    // returns x if the slice is complete
  // Broadcasts a scalar to the shape.
  Instruction* Fill(Instruction* scalar, const Shape& shape);
  Instruction* Fill(Literal scalar, const Shape& shape) { return Fill(Constant(std::move(scalar)), shape); }

 private:
  bool RunRound();
  bool Visit(Instruction* i);
  void Enqueue(Instruction* i);
  void EnqueueUsers(Instruction* i);
  void ReplaceBy(Instruction* i, Instruction* with);
  void RemoveIfDead(Instruction* i);
  Instruction* Insert(InstructionSpec spec);

  Computation* c_;
  const RuleSet& rules_;
  std::vector<int64_t>* applied_;
  std::deque<Instruction*> queue_;  // null: removed while queued
  uint64_t first_ = 0;              // index of the first entry of the queue, counted from the start
  absl::flat_hash_map<const Instruction*, uint64_t> queued_;
  absl::flat_hash_set<int64_t> removed_;             // ids, since the round began
  absl::flat_hash_set<const Instruction*> ordered_;  // instructions with control dependencies
  std::vector<Instruction*> made_;                   // by the rule being tried
  Instruction* at_ = nullptr;
  int64_t rewrites_left_ = 0;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_REWRITER_H_
