#include "conformance/suites/suites.h"

namespace backplane::conformance {

std::vector<const Check*> CollectChecks() {
  std::vector<const Check*> all;
  for (const auto& suite :
       {AbiSuite(),          LifecycleSuite(), DevicesSuite(),       MemoriesSuite(),   BuffersSuite(),
        BufferCopiesSuite(), EventsSuite(),    CompileSuite(),       ExecutableSuite(), ExecuteSuite(),
        ConcurrencySuite(),  TransfersSuite(), SerializationSuite(), TopologySuite(),   ExtensionsSuite(),
        ErrorsSuite(),       LimitsSuite(),    ExhaustionSuite(),    RobustSuite(),     LeaksSuite()}) {
    for (const Check& check : suite) all.push_back(&check);
  }
  return all;
}

}  // namespace backplane::conformance
