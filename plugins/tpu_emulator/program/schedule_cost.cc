#include "plugins/tpu_emulator/program/schedule_cost.h"

namespace backplane::tpu {

NamedValues ScheduleCost(const Schedule& schedule) {
  double executions = 0, mxu = 0, vpu = 0, hbm = 0, ici = 0;
  for (const ScheduledKernel& k : schedule.kernels) {
    const double times = static_cast<double>(k.executions);
    const double second = k.time.cycles > 0 ? k.time.seconds / k.time.cycles : 0;
    executions += times;
    mxu += times * k.time.mxu_cycles * second;
    vpu += times * k.time.vpu_cycles * second;
    hbm += times * k.time.hbm_cycles * second;
    ici += times * k.time.ici_cycles * second;
  }
  NamedValues v;
  v["flops"] = static_cast<float>(schedule.flops);
  v["transcendentals"] = static_cast<float>(schedule.transcendentals);
  v["bytes accessed"] = static_cast<float>(schedule.hbm_bytes);
  v["optimal_seconds"] = static_cast<float>(schedule.seconds);
  v["cycles"] = static_cast<float>(schedule.cycles);
  v["kernels"] = static_cast<float>(executions);
  v["mxu seconds"] = static_cast<float>(mxu);
  v["vpu seconds"] = static_cast<float>(vpu);
  v["hbm seconds"] = static_cast<float>(hbm);
  v["ici seconds"] = static_cast<float>(ici);
  return v;
}

}  // namespace backplane::tpu
