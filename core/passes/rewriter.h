// Rewrite rules, and what runs them over a computation until none applies any more.
//
// A rule looks at one instruction and gives what it can be replaced by, or null:
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
// What a rule may do. It makes new instructions through the Rewriter, which puts them in front of `i` and gives them
// i's metadata. Their operands are new ones too, or stand in front of `i`; in general they are operands of `i`, of
// those, and so on. It changes and removes nothing itself. The replacement has i's shape, layouts aside. A rule gives
// something that is simpler by an order of its own, or the rules would go round in circles; the bound below then ends
// them.
//
// Order. All instructions with rules stand in a queue, in the computation's order. Of an instruction's rules the first
// that applies is taken, in the order in which they were added. After a replacement these are queued, each once: the
// new instructions, the users of the old one, through users of a single operand (a reshape, a broadcast) also theirs,
// and the only reader left of what the old one read. Rules that look further, or past the second operand of another
// instruction, are found by a further sweep over all instructions, of which there are at most kMaxSweeps. Nothing
// depends on addresses.
//
// Dead instructions go at once, with what only they needed; what has an effect, a parameter or a part of a control
// dependency stays for RemoveDead().
//
// Cost. Each replacement costs as much as the old instruction has users. The number of replacements is bounded by
// kRewritesPerInstruction for each instruction of the computation at the start; a rule set that goes round in circles
// ends there and leaves a valid computation.
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
  std::vector<Opcode> opcodes;  // of the instructions that it is asked about
  const char* name;             // "slice-of-slice"
  const char* summary;          // one line, for the list of rules
  std::function<Instruction*(Instruction* i, Rewriter& to)> apply;
};

class RuleSet {
 public:
  void Add(RewriteRule rule);
  const std::vector<RewriteRule>& rules() const { return rules_; }
  // Numbers of the rules for an opcode, first come first.
  const std::vector<size_t>& For(Opcode o) const { return by_opcode_[static_cast<size_t>(o)]; }

 private:
  std::vector<RewriteRule> rules_;
  std::vector<std::vector<size_t>> by_opcode_ = std::vector<std::vector<size_t>>(Operations().size());
};

class Rewriter {
 public:
  static constexpr int64_t kRewritesPerInstruction = 32;
  static constexpr int kMaxSweeps = 16;

  // `applied`, when given, counts how often each rule of the set was applied; it is made as long as the set is.
  Rewriter(Computation* c, const RuleSet& rules, std::vector<int64_t>* applied = nullptr)
      : c_(c), rules_(rules), applied_(applied) {}

  // Whether anything changed.
  bool Run();

  // ---- for rules: new instructions in front of the one that the rule looks at

  Computation* computation() const { return c_; }
  Instruction* Make(Opcode opcode, const Shape& shape, std::vector<Instruction*> operands, Attributes attrs = {},
                    std::vector<Computation*> called = {});
  // As `of`, with its attributes and what else it carries, on other operands.
  Instruction* Clone(const Instruction* of, const Shape& shape, std::vector<Instruction*> operands);
  Instruction* Constant(Literal value);
  Instruction* Broadcast(Instruction* x, const Shape& shape, Ints dimensions);
  Instruction* Reshape(Instruction* x, const Shape& shape);  // x itself where it has the shape
  Instruction* Transpose(Instruction* x, Ints permutation);  // x itself where nothing moves
  Instruction* Slice(Instruction* x, SliceConfig slices);    // x itself where nothing is left out
  // A scalar in every element of the shape.
  Instruction* Fill(Instruction* scalar, const Shape& shape);
  Instruction* Fill(Literal scalar, const Shape& shape) { return Fill(Constant(std::move(scalar)), shape); }

 private:
  bool Sweep();
  bool Visit(Instruction* i);
  void Enqueue(Instruction* i);
  void EnqueueUsers(Instruction* i);
  void ReplaceBy(Instruction* i, Instruction* with);
  void RemoveIfDead(Instruction* i);
  Instruction* Place(InstructionSpec spec);

  Computation* c_;
  const RuleSet& rules_;
  std::vector<int64_t>* applied_;
  std::deque<Instruction*> queue_;  // null: removed since
  uint64_t first_ = 0;              // number of the first in the queue, counted from the beginning
  absl::flat_hash_map<const Instruction*, uint64_t> queued_;
  absl::flat_hash_set<int64_t> removed_;             // ids, since the sweep began
  absl::flat_hash_set<const Instruction*> ordered_;  // parts of control dependencies
  std::vector<Instruction*> made_;                   // by the rule that is being asked
  Instruction* at_ = nullptr;
  int64_t rewrites_left_ = 0;
};

}  // namespace backplane

#endif  // BACKPLANE_CORE_PASSES_REWRITER_H_
