// The loops around the point where code is emitted: which variables of the index algebra are bound at which level.
// Loop-invariant code is emitted at the outermost level where it can be computed.
//
// Level 0 is the function's body. Each Loop, Repeat, If and Block opens one level more while its body is emitted. No
// later pass moves code out of loops, so a value is emitted in the outermost level that binds everything it depends on:
// AtLevel(GetLevel(index), ...) puts the builder there. A ScopedCache remembers what a level has emitted already.
//
// A binding states which integer counts a group of variables. At most one kind of binding has lanes: its counter runs
// over the elements of a vector, values that depend on it are vectors, and all others are scalars. A kernel for a
// machine that runs each lane by itself (a GPU) binds the number of its work item without lanes, so all its code is
// scalar. It does so inside an If that holds for numbers in range, because values that depend on a binding are emitted
// at the level of the binding.
//
// An object is used for one function, on one thread. The builder and the table of variables must outlive it.
#ifndef BACKPLANE_SDK_CODEGEN_BODY_LOOP_SCOPES_H_
#define BACKPLANE_SDK_CODEGEN_BODY_LOOP_SCOPES_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "sdk/codegen/body/index_names.h"
#include "sdk/codegen/llvm_includes.h"

namespace backplane::codegen {

class LoopScopes {
 public:
  using Values = std::vector<llvm::Value*>;

  // Variables that one integer counts, outer to inner: they are the digits of a mixed-radix number.
  struct Binding {
    std::vector<VarId> vars;
    std::vector<int64_t> strides;  // of each variable in the number
    llvm::Value* value = nullptr;  // of lane 0
    int level = 0;
    int lanes = 0;  // 0: a scalar; else lane k has value + k
    int64_t extent = 1;

    // Whether the sum depends on all of the variables as it would on the number itself. Sets `coefficient` to the
    // coefficient of the number then.
    bool MovesTogether(const Affine& e, int64_t* coefficient) const;
  };

  LoopScopes(llvm::IRBuilder<>& builder, VarTable& vars);
  LoopScopes(const LoopScopes&) = delete;
  LoopScopes& operator=(const LoopScopes&) = delete;

  llvm::IRBuilder<>& b() { return b_; }
  VarTable& vars() { return vars_; }

  // ---- What is bound at which level

  // Binds the variables to an integer, until the innermost open scope ends.
  void Bind(absl::Span<const VarId> vars, llvm::Value* value, int lanes = 0);
  // Returns null for a variable that is not bound or is no loop variable. Valid while its scope is open.
  const Binding* FindBinding(VarId v) const;

  int level() const { return static_cast<int>(scopes_.size()) - 1; }
  // The number of lanes of the vectors that are computed here; 0: no binding has lanes.
  int lanes() const { return lanes_; }
  // Returns the outermost level at which the value can be computed.
  int GetLevel(VarId v) const;
  int GetLevel(const Affine& e) const;
  int GetLevel(const Index& index) const;
  int GetLevel(const Guards& guards) const;
  // Whether the value differs from lane to lane.
  bool HasLanes(VarId v) const;
  bool HasLanes(const Affine& e) const;
  bool HasLanes(const Index& index) const;

  // Returns a guard that holds for lanes whose number is below the extent of the variables.
  Guard TailGuard(absl::Span<const VarId> vars) const;
  // Returns the tail guards of all bindings on which the index depends and whose last vector may exceed their extent. A
  // read at the index that has no other guards needs them, because readable memory may end with the array.
  Guards GetTailGuards(const Index& index) const;

  // ---- Nesting

  // Runs fn with the builder at the end of the code of an outer level. The inner levels are not visible meanwhile.
  void AtLevel(int level, const std::function<void()>& fn);

  // Emits for (iv = begin; iv < end; iv += step), with at least one iteration. `carried` holds the values before the
  // loop and receives those after it; `body` replaces the values that it is given.
  void Loop(llvm::Value* begin, llvm::Value* end, int64_t step, Values& carried,
            const std::function<void(llvm::Value* iv, Values& carried)>& body);
  void Loop(llvm::Value* begin, llvm::Value* end, int64_t step, const std::function<void(llvm::Value* iv)>& body);

  // From now on, loops over single elements with known bounds are unrolled, if code is emitted at most `copies` times
  // in all unrolled loops around it.
  void UnrollShortLoops(int64_t copies) { max_copies_ = copies; }

  // Emits while (true) { if (!before(carried)) break; if (!iteration(carried)) break; }, where `iteration` replaces the
  // carried values. Exactly one of the two tests must exist: `before` is null, or `iteration` returns null, which means
  // true.
  void Repeat(Values& carried, const std::function<llvm::Value*(Values&)>& before,
              const std::function<llvm::Value*(Values&)>& iteration);

  // Emits code that runs once, in a scope of its own.
  void Block(const std::function<void()>& body) { If(nullptr, body); }
  // Like Block, but the code runs only if the condition (an i1) holds. A null condition holds.
  void If(llvm::Value* condition, const std::function<void()>& body);

 private:
  template <typename Key, typename Value>
  friend class ScopedCache;

  // An object that keeps data only as long as a scope is open.
  class Listener {
   public:
    virtual void ScopeEnds(int scope) = 0;

   protected:
    ~Listener() = default;
  };

  struct Scope {
    llvm::Instruction* hoist = nullptr;  // the branch into the next scope: outer code goes in front of it
    int number = 0;                      // different from those of all other scopes that are open
  };
  // The position of the code of a new scope, and the builder's position after it.
  struct BlockSplit {
    llvm::BasicBlock* before = nullptr;
    llvm::BasicBlock* after = nullptr;
    llvm::Instruction* resume = nullptr;  // null: at the end of `after`
  };

  BlockSplit SplitBlock();
  void Resume(const BlockSplit& cut);
  // Opens a scope that `enter` branches into, runs fn in it, and closes it.
  void InScope(llvm::Instruction* enter, const std::function<void()>& fn);

  llvm::IRBuilder<>& b_;
  VarTable& vars_;
  std::vector<Scope> scopes_;
  std::vector<int> free_numbers_;
  int numbers_ = 0;
  std::deque<Binding> bindings_;
  std::map<VarId, const Binding*> binding_of_;
  int lanes_ = 0;
  int64_t copies_ = 1, max_copies_ = 1;  // of the code at this point, by unrolled loops
  std::vector<Listener*> listeners_;
};

// A map from keys to values for each open scope. The entries of a scope are removed when it ends.
template <typename Key, typename Value>
class ScopedCache final : private LoopScopes::Listener {
 public:
  explicit ScopedCache(LoopScopes& scopes) : scopes_(scopes) { scopes.listeners_.push_back(this); }
  ScopedCache(const ScopedCache&) = delete;
  ScopedCache& operator=(const ScopedCache&) = delete;

  // Returns null if the level has no such entry. The pointer is valid until the next Set.
  const Value* Find(int level, const Key& key) const {
    const size_t number = GetNumber(level);
    if (number >= entries_.size()) return nullptr;
    auto it = entries_[number].find(key);
    return it == entries_[number].end() ? nullptr : &it->second;
  }
  void Set(int level, Key key, Value value) {
    const size_t number = GetNumber(level);
    if (number >= entries_.size()) entries_.resize(number + 1);
    entries_[number].insert_or_assign(std::move(key), std::move(value));
  }

 private:
  size_t GetNumber(int level) const { return static_cast<size_t>(scopes_.scopes_[static_cast<size_t>(level)].number); }
  void ScopeEnds(int scope) override {
    if (static_cast<size_t>(scope) < entries_.size()) entries_[static_cast<size_t>(scope)].clear();
  }

  LoopScopes& scopes_;
  std::vector<std::map<Key, Value>> entries_;  // by the number of the scope
};

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_LOOP_SCOPES_H_
