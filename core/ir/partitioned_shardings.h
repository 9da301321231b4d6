// The shardings of the parameters and results of a partitioned module, which it stores in frontend attributes: each is
// a tuple of shardings as text, one per leaf: {{devices=[2]<=[2]}, {replicated}}.
#ifndef BACKPLANE_CORE_IR_PARTITIONED_SHARDINGS_H_
#define BACKPLANE_CORE_IR_PARTITIONED_SHARDINGS_H_

namespace backplane {

inline constexpr char kParameterShardingsAttribute[] = "spmd_parameter_shardings";
inline constexpr char kResultShardingsAttribute[] = "spmd_result_shardings";

}  // namespace backplane

#endif  // BACKPLANE_CORE_IR_PARTITIONED_SHARDINGS_H_
