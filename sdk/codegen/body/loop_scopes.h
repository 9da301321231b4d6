// The loops around the point where code is being emitted: which variables of the index algebra are bound at which
// level, and where code belongs that does not change in the inner loops.
//
// Level 0 is the function's body. Each Loop, Repeat, If and Block opens one level more while its body is emitted. No
// later pass moves code out of loops, so a value is emitted in the outermost level that binds everything it depends on:
// AtLevel(LevelOf(index), ...) puts the builder there. A ScopedCache remembers what a level has emitted already.
//
// A binding says which integer counts a group of variables. At most one kind of binding has lanes: the counter then
// runs over the elements of a vector, what depends on it is a vector, and all else is a scalar. A kernel for a machine
// that runs each lane by itself (a GPU) binds its work item's number without lanes, and all code is scalar. It does so
// inside an If that holds for the numbers in range: what depends on a binding is emitted at the binding's level.
//
// One object serves one function, on one thread. It keeps references to the builder and the table of variables.
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

  // Variables that one integer counts, outer to inner, as digits of a mixed-radix number.
  struct Binding {
    std::vector<VarId> vars;
    std::vector<int64_t> strides;  // of each variable in the number
    llvm::Value* value = nullptr;  // of lane 0
    int level = 0;
    int lanes = 0;  // 0: a scalar; else lane k has value + k
    int64_t extent = 1;

    // Whether the sum goes by all of the variables as by the number itself; `coefficient` is then the number's.
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
  // Null for a variable that is not bound, or not a loop's. Valid while its scope is open.
  const Binding* BindingOf(VarId v) const;

  int level() const { return static_cast<int>(scopes_.size()) - 1; }
  // Lanes of the vectors that are computed here; 0 where nothing has lanes.
  int lanes() const { return lanes_; }
  // The outermost level where the value can be computed.
  int LevelOf(VarId v) const;
  int LevelOf(const Affine& e) const;
  int LevelOf(const Index& index) const;
  int LevelOf(const Guards& guards) const;
  // Whether the value differs from lane to lane.
  bool HasLanes(VarId v) const;
  bool HasLanes(const Affine& e) const;
  bool HasLanes(const Index& index) const;

  // Holds for the lanes whose number is below the extent of the variables.
  Guard TailGuard(absl::Span<const VarId> vars) const;
  // The tail guards of all bindings that the index goes by and whose last vector may reach beyond them. What reads at
  // the index before any other guard is known needs them: the array may end where readable memory does.
  Guards TailGuardsOf(const Index& index) const;

  // ---- Nesting

  // Runs fn with the builder at the end of an outer level's code. The inner levels are not there meanwhile.
  void AtLevel(int level, const std::function<void()>& fn);

  // for (iv = begin; iv < end; iv += step), with at least one iteration. `carried` holds the values before the loop and
  // receives those after it; the body replaces the ones it is given.
  void Loop(llvm::Value* begin, llvm::Value* end, int64_t step, Values& carried,
            const std::function<void(llvm::Value* iv, Values& carried)>& body);
  void Loop(llvm::Value* begin, llvm::Value* end, int64_t step, const std::function<void(llvm::Value* iv)>& body);

  // while (true) { if (!before(carried)) break; if (!iteration(carried)) break; } with values that `iteration`
  // replaces. Exactly one of the two tests: `before` is null, or `iteration` returns null for true.
  void Repeat(Values& carried, const std::function<llvm::Value*(Values&)>& before,
              const std::function<llvm::Value*(Values&)>& iteration);

  // Code that runs once, in a scope of its own.
  void Block(const std::function<void()>& body) { If(nullptr, body); }
  // The same, run only if the condition (an i1) holds.
  void If(llvm::Value* condition, const std::function<void()>& body);

 private:
  template <typename Key, typename Value>
  friend class ScopedCache;

  // Whoever remembers something for as long as a scope is open.
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
  // Where the code of a new scope goes, and the builder's place behind it.
  struct Cut {
    llvm::BasicBlock* before = nullptr;
    llvm::BasicBlock* after = nullptr;
    llvm::Instruction* resume = nullptr;  // null: at the end of `after`
  };

  Cut CutHere();
  void Resume(const Cut& cut);
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
  std::vector<Listener*> listeners_;
};

// Values by key for each open scope. An entry is forgotten when its scope ends.
template <typename Key, typename Value>
class ScopedCache final : private LoopScopes::Listener {
 public:
  explicit ScopedCache(LoopScopes& scopes) : scopes_(scopes) { scopes.listeners_.push_back(this); }
  ScopedCache(const ScopedCache&) = delete;
  ScopedCache& operator=(const ScopedCache&) = delete;

  // Null when the level has no such entry. Valid until the next Set.
  const Value* Find(int level, const Key& key) const {
    const size_t number = NumberOf(level);
    if (number >= entries_.size()) return nullptr;
    auto it = entries_[number].find(key);
    return it == entries_[number].end() ? nullptr : &it->second;
  }
  void Set(int level, Key key, Value value) {
    const size_t number = NumberOf(level);
    if (number >= entries_.size()) entries_.resize(number + 1);
    entries_[number].insert_or_assign(std::move(key), std::move(value));
  }

 private:
  size_t NumberOf(int level) const { return static_cast<size_t>(scopes_.scopes_[static_cast<size_t>(level)].number); }
  void ScopeEnds(int scope) override {
    if (static_cast<size_t>(scope) < entries_.size()) entries_[static_cast<size_t>(scope)].clear();
  }

  LoopScopes& scopes_;
  std::vector<std::map<Key, Value>> entries_;  // by the number of the scope
};

}  // namespace backplane::codegen

#endif  // BACKPLANE_SDK_CODEGEN_BODY_LOOP_SCOPES_H_
