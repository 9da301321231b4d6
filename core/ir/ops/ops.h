// Every operation as a named function: see common.h for the conventions.
#ifndef BACKPLANE_CORE_IR_OPS_OPS_H_
#define BACKPLANE_CORE_IR_OPS_OPS_H_

#include "core/ir/ops/collectives.h"
#include "core/ir/ops/contraction.h"
#include "core/ir/ops/control_flow.h"
#include "core/ir/ops/conversion.h"
#include "core/ir/ops/data_movement.h"
#include "core/ir/ops/elementwise.h"
#include "core/ir/ops/host_transfer.h"
#include "core/ir/ops/indexing.h"
#include "core/ir/ops/numerics.h"
#include "core/ir/ops/reduction.h"

#endif  // BACKPLANE_CORE_IR_OPS_OPS_H_
