#include <gtest/gtest.h>

#include "core/passes/combine_collectives.h"
#include "core/passes/golden.h"
#include "core/passes/order_effects.h"
#include "core/passes/passes.h"

namespace backplane {
namespace {

template <typename P>
void Check(const char* name) {
  RunGoldenFile(std::string("core/passes/testdata/") + name + ".hlo", [] { return std::make_unique<P>(); });
}

TEST(Golden, InlineCalls) { Check<InlineCalls>("inline-calls"); }
TEST(Golden, UnshareComputations) { Check<UnshareComputations>("unshare-computations"); }
TEST(Golden, SimplifyTuples) { Check<SimplifyTuples>("simplify-tuples"); }
TEST(Golden, SimplifyControlFlow) { Check<SimplifyControlFlow>("simplify-control-flow"); }
TEST(Golden, RemoveDeadCode) { Check<RemoveDeadCode>("remove-dead-code"); }
TEST(Golden, EliminateCommonSubexpressions) { Check<EliminateCommonSubexpressions>("eliminate-common-subexpressions"); }
TEST(Golden, SimplifyAlgebra) { Check<SimplifyAlgebra>("simplify-algebra"); }
TEST(Golden, ExpandOperations) { Check<ExpandOperations>("expand-operations"); }
TEST(Golden, ExpandAsync) { Check<ExpandAsync>("expand-async"); }
TEST(Golden, SimplifyCollectives) { Check<SimplifyCollectives>("simplify-collectives"); }
TEST(Golden, CombineAllReduces) { Check<CombineAllReduces>("combine-all-reduces"); }
TEST(Golden, OrderEffects) { Check<OrderEffects>("order-effects"); }
TEST(Golden, FoldConstants) { Check<FoldConstants>("fold-constants"); }

}  // namespace
}  // namespace backplane
