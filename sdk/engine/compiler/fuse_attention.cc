#include "sdk/engine/compiler/fuse_attention.h"

#include "core/passes/replace_each.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"
#include "sdk/compiler/attention.h"
#include "sdk/engine/compiler/library_problems.h"

namespace backplane::engine {
namespace {

// The kernel computes 16 or 32 queries at a time. With fewer, separate products of long rows are faster: they only read
// the keys and values. Short rows save more by having no memory of their own.
constexpr int64_t kFewestQueries = 24;
constexpr int64_t kFewKeys = 128;
constexpr int64_t kFewestOfFewKeys = 8;
// A thread keeps 32 columns of scores, and copies of the keys and values.
constexpr int64_t kMostFloatsOfKeys = int64_t{1} << 24;

bool IsFasterFused(const compiler::Attention& a) {
  const bool enough = a.queries >= kFewestQueries ||
                      (a.queries >= kFewestOfFewKeys && a.keys >= kFewestOfFewKeys && a.keys <= kFewKeys);
  return enough && a.keys * (a.depth + a.width + 32) <= kMostFloatsOfKeys;
}

}  // namespace

absl::StatusOr<bool> FuseAttention::Run(Module* module) {
  return RewriteEach(module, [this](Computation* c, Instruction* dot) -> absl::StatusOr<bool> {
    if (!dot->Is(Opcode::kDot) || (dot->users().empty() && dot != c->root())) return false;
    Instruction* root = compiler::FindAttentionRoot(dot);
    const std::optional<compiler::Attention> attention = compiler::MatchAttention(root);
    if (!attention || !IsFasterFused(*attention) || compiler::HasOtherUsers(root, *attention)) return false;
    if (IsClaimedBy(lowering_, *attention->scores) || IsClaimedBy(lowering_, *attention->product)) return false;
    if (!ToAttentionProblem(*attention).ok()) return false;
    Instruction* fusion = compiler::MakeAttentionFusion(c, root, *attention);
    if (!compiler::AsAttention(*fusion)) {  // the thunk is made from what is found there
      Computation* body = fusion->called(0);
      RETURN_IF_ERROR(c->Remove(fusion));
      c->parent()->RemoveComputation(body);
      return false;
    }
    Replace(root, fusion);
    return true;
  });
}

}  // namespace backplane::engine
