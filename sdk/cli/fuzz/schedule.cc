#include "sdk/cli/fuzz/schedule.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/types/status_macros.h"
#include "sdk/cli/fuzz/compare.h"
#include "sdk/cli/fuzz/shrink.h"
#include "sdk/cli/fuzz/wire.h"

namespace backplane::cli::fuzz {
namespace {

const Module& ModuleOf(const FuzzProgram& p, int64_t program) {
  return program == 0 ? *p.module : *p.helpers[static_cast<size_t>(program - 1)];
}

std::vector<Shape> ParameterShapes(const Module& module) {
  std::vector<Shape> shapes;
  for (const Instruction* p : module.entry()->parameters()) shapes.push_back(p->shape().WithoutLayout());
  return shapes;
}

// Returns the parameters that a run consumes.
std::set<int64_t> DonatedParameters(const FuzzProgram& p, int64_t program) {
  std::set<int64_t> donated;
  const ModuleConfig& config = ModuleOf(p, program).config();
  for (const InputOutputAlias& a : config.input_output_aliases) donated.insert(a.parameter);
  for (const BufferDonor& d : config.buffer_donors) donated.insert(d.parameter);
  if (program != 0) return donated;
  for (size_t k = 0; k < p.host_orders.size(); ++k) {
    if (p.host_orders[k].kept) donated.erase(static_cast<int64_t>(k));
  }
  return donated;
}

// A program on arrays of one shape: two of them are exchanged and combined, or one of them is changed in place.
absl::StatusOr<std::unique_ptr<Module>> MakeHelper(Random& random, const Shape& shape, size_t number) {
  auto module = std::make_unique<Module>(absl::StrCat("helper_", number));
  Builder b(module.get(), "main");
  const PrimitiveType type = shape.element_type();
  const Opcode op = type == PrimitiveType::kPred ? Opcode::kXor
                    : IsComplex(type)            ? Opcode::kSubtract
                    : random.Chance(50)          ? Opcode::kMaximum
                                                 : Opcode::kSubtract;
  ASSIGN_OR_RETURN(const Value x, b.Parameter(0, shape));
  ModuleConfig& config = module->config();
  if (random.Chance(50)) {
    const Opcode one = type == PrimitiveType::kPred ? Opcode::kNot : Opcode::kNegate;
    ASSIGN_OR_RETURN(const Value y, b.Unary(IsUnsigned(type) ? Opcode::kNot : one, x));
    ASSIGN_OR_RETURN(Computation * main, b.Build(y));
    module->set_entry(main);
    if (random.Chance(70)) config.input_output_aliases.push_back({{}, 0, {}, random.Chance(40)});
  } else {
    ASSIGN_OR_RETURN(const Value y, b.Parameter(1, shape));
    ASSIGN_OR_RETURN(const Value z, b.Binary(op, x, y));
    ASSIGN_OR_RETURN(const Value root, b.Tuple({y, z, x}));
    ASSIGN_OR_RETURN(Computation * main, b.Build(root));
    module->set_entry(main);
    if (random.Chance(40)) config.input_output_aliases.push_back({{1}, 0, {}, false});
    if (random.Chance(30)) config.input_output_aliases.push_back({{0}, 1, {}, false});
  }
  RETURN_IF_ERROR(VerifyModule(*module));
  return module;
}

}  // namespace

std::vector<Shape> ResultShapes(const Module& module) {
  std::vector<Shape> shapes;
  ForEachLeaf(module.entry()->root()->shape(),
              [&](const Shape& leaf, const std::vector<int64_t>&) { shapes.push_back(leaf.WithoutLayout()); });
  return shapes;
}

bool CanBeScheduled(const FuzzProgram& p) {
  const ModuleConfig& config = p.module->config();
  if (GetDevices(*p.module).count() > 1 || p.arguments.empty() || !config.parameter_layouts.empty() ||
      config.result_layout.element_type() != PrimitiveType::kInvalid) {
    return false;
  }
  for (const Shape& shape : ResultShapes(*p.module)) {
    if (!shape.IsArray() || shape.HasDynamicDimensions()) return false;
  }
  return true;
}

void MakeSchedule(Random& random, FuzzProgram& p) {
  struct HeldBuffer {
    Shape shape;
    bool there = true;
  };
  std::vector<HeldBuffer> buffers;
  for (int64_t copy = 0; copy < kArgumentCopies; ++copy) {
    for (const Literal& a : p.arguments) buffers.push_back({a.shape().WithoutLayout()});
  }
  auto any = [&](const Shape& shape, const std::set<int64_t>& without) -> int64_t {
    std::vector<int64_t> fitting;
    for (size_t k = 0; k < buffers.size(); ++k) {
      const int64_t at = static_cast<int64_t>(k);
      if (buffers[k].there && buffers[k].shape == shape && without.count(at) == 0) fitting.push_back(at);
    }
    return fitting.empty() ? -1 : random.Pick(fitting);
  };
  // A buffer that is donated must not be another argument of the same call.
  auto run = [&](int64_t program) {
    const std::vector<Shape> parameters = ParameterShapes(ModuleOf(p, program));
    const std::set<int64_t> donated = DonatedParameters(p, program);
    HostStep step{HostStep::Kind::kRun, program, std::vector<int64_t>(parameters.size(), -1)};
    std::set<int64_t> used;
    for (const bool first : {true, false}) {
      std::set<int64_t> now = used;
      for (size_t k = 0; k < parameters.size(); ++k) {
        if ((donated.count(static_cast<int64_t>(k)) > 0) != first) continue;
        const int64_t b = any(parameters[k], first ? now : used);
        if (b < 0) return;
        step.buffers[k] = b;
        now.insert(b);
      }
      if (first) used = now;
    }
    for (const int64_t k : donated) buffers[static_cast<size_t>(step.buffers[static_cast<size_t>(k)])].there = false;
    for (const Shape& shape : ResultShapes(ModuleOf(p, program))) buffers.push_back({shape});
    p.schedule.push_back(std::move(step));
  };
  run(0);
  const int64_t steps = random.Between(3, 12);
  for (int64_t k = 0; k < steps; ++k) {
    const int64_t way = random.Below(10);
    std::vector<int64_t> there;
    for (size_t b = 0; b < buffers.size(); ++b) {
      if (buffers[b].there) there.push_back(static_cast<int64_t>(b));
    }
    if (there.empty()) break;
    if (way < 3) {
      run(0);
    } else if (way < 6) {
      if (p.helpers.size() < 3 && (p.helpers.empty() || random.Chance(40))) {
        const Shape shape = buffers[static_cast<size_t>(random.Pick(there))].shape;
        absl::StatusOr<std::unique_ptr<Module>> helper = MakeHelper(random, shape, p.helpers.size() + 1);
        if (!helper.ok()) continue;
        p.helpers.push_back(*std::move(helper));
        run(static_cast<int64_t>(p.helpers.size()));
      } else if (!p.helpers.empty()) {
        run(random.Between(1, static_cast<int64_t>(p.helpers.size())));
      }
    } else if (way < 8) {
      const int64_t b = random.Pick(there);
      buffers[static_cast<size_t>(b)].there = false;
      p.schedule.push_back({HostStep::Kind::kDelete, 0, {b}});
    } else {
      p.schedule.push_back({HostStep::Kind::kRead, 0, {random.Pick(there)}});
    }
  }
  // Reads the remaining buffers, from the last to the first or in any order; some of them are not read.
  std::vector<int64_t> order = random.Permutation(static_cast<int64_t>(buffers.size()));
  for (const int64_t b : order) {
    if (buffers[static_cast<size_t>(b)].there && random.Chance(80))
      p.schedule.push_back({HostStep::Kind::kRead, 0, {b}});
  }
}

absl::StatusOr<BoundedValue> BoundSchedule(const FuzzProgram& p, const Module& program_module,
                                           const std::vector<Overwrite>& overwrites, const BoundingHooks& change) {
  std::vector<BoundedValue> buffers;
  for (int64_t copy = 0; copy < kArgumentCopies; ++copy) {
    for (const Literal& a : p.arguments) buffers.push_back(BoundedValue::Exact(a));
  }
  BoundedValue read;
  read.is_tuple = true;
  for (const HostStep& step : p.schedule) {
    switch (step.kind) {
      case HostStep::Kind::kDelete:
        break;
      case HostStep::Kind::kRead:
        read.elements.push_back(buffers[static_cast<size_t>(step.buffers[0])]);
        break;
      case HostStep::Kind::kRun: {
        std::vector<BoundedValue> arguments;
        for (const int64_t b : step.buffers) arguments.push_back(buffers[static_cast<size_t>(b)]);
        const Module& module = step.program == 0 ? program_module : ModuleOf(p, step.program);
        ASSIGN_OR_RETURN(const BoundedValue result, BoundEntryWith(module, arguments, change));
        const std::vector<const BoundedValue*> leaves = Leaves(result);
        for (const BoundedValue* leaf : leaves) buffers.push_back(*leaf);
        if (step.program != 0) break;
        for (const Overwrite& o : overwrites) {
          buffers[static_cast<size_t>(step.buffers[static_cast<size_t>(o.argument)])] =
              *leaves[static_cast<size_t>(o.result)];
        }
        break;
      }
    }
  }
  return read;
}

bool ScheduleFits(const FuzzProgram& p) {
  if (!CanBeScheduled(p)) return false;
  std::vector<std::pair<Shape, bool>> buffers;
  for (int64_t copy = 0; copy < kArgumentCopies; ++copy) {
    for (const Literal& a : p.arguments) buffers.emplace_back(a.shape().WithoutLayout(), true);
  }
  bool reads = false;
  for (const HostStep& step : p.schedule) {
    for (const int64_t b : step.buffers) {
      if (b < 0 || b >= static_cast<int64_t>(buffers.size()) || !buffers[static_cast<size_t>(b)].second) return false;
    }
    reads = reads || step.kind == HostStep::Kind::kRead;
    if (step.kind == HostStep::Kind::kDelete) buffers[static_cast<size_t>(step.buffers[0])].second = false;
    if (step.kind != HostStep::Kind::kRun) continue;
    if (step.program > static_cast<int64_t>(p.helpers.size())) return false;
    const std::vector<Shape> parameters = ParameterShapes(ModuleOf(p, step.program));
    if (parameters.size() != step.buffers.size()) return false;
    for (size_t k = 0; k < parameters.size(); ++k) {
      if (!(buffers[static_cast<size_t>(step.buffers[k])].first == parameters[k])) return false;
    }
    const std::set<int64_t> donated = DonatedParameters(p, step.program);
    for (const int64_t k : donated) {
      const int64_t b = step.buffers[static_cast<size_t>(k)];
      if (std::count(step.buffers.begin(), step.buffers.end(), b) > 1) return false;
      buffers[static_cast<size_t>(b)].second = false;
    }
    for (const Shape& shape : ResultShapes(ModuleOf(p, step.program))) buffers.emplace_back(shape, true);
  }
  return reads;
}

std::vector<std::string> DescribeSchedule(const FuzzProgram& p) {
  std::vector<std::string> lines;
  if (p.schedule.empty()) return lines;
  int64_t next = kArgumentCopies * static_cast<int64_t>(p.arguments.size());
  lines.push_back(absl::StrCat("several programs in flight; buffers 0 to ", next - 1, " are the arguments, ",
                               kArgumentCopies, " of each"));
  for (const HostStep& step : p.schedule) {
    if (step.kind != HostStep::Kind::kRun) {
      lines.push_back(absl::StrCat(step.kind == HostStep::Kind::kRead ? "read " : "delete ", step.buffers[0]));
      continue;
    }
    const int64_t count = static_cast<int64_t>(ResultShapes(ModuleOf(p, step.program)).size());
    const std::set<int64_t> donated = DonatedParameters(p, step.program);
    std::string given;
    for (const int64_t k : donated)
      absl::StrAppend(&given, given.empty() ? ", taking " : " ", step.buffers[static_cast<size_t>(k)]);
    lines.push_back(absl::StrCat("run ", step.program == 0 ? "the program" : absl::StrCat("helper ", step.program),
                                 " on ", absl::StrJoin(step.buffers, " "), given, ": ", next, " to ",
                                 next + count - 1));
    next += count;
  }
  return lines;
}

// ---- Shrinking.

bool RemoveUnusedScheduled(FuzzProgram& p) {
  for (Computation* c : p.module->PostOrder()) {
    c->SortTopologically();
    c->RemoveDead();
  }
  p.module->RemoveUnreachableComputations();
  return VerifyModule(*p.module).ok() && ScheduleFits(p);
}

// No steps at all; or without one step and the steps that need its results.
Candidates ShorterSchedule(const FuzzProgram& p) {
  Candidates all;
  if (p.schedule.empty()) return all;
  FuzzProgram none = Copy(p);
  none.schedule.clear();
  none.helpers.clear();
  all.push_back(std::move(none));
  for (size_t drop = p.schedule.size(); drop > 0; --drop) {
    std::vector<int64_t> place;  // the new number of each buffer; -1: removed
    const int64_t first = kArgumentCopies * static_cast<int64_t>(p.arguments.size());
    for (int64_t k = 0; k < first; ++k) place.push_back(k);
    int64_t next = first;
    FuzzProgram c = Copy(p);
    c.schedule.clear();
    for (size_t k = 0; k < p.schedule.size(); ++k) {
      HostStep step = p.schedule[k];
      bool there = k + 1 != drop;
      for (int64_t& b : step.buffers) {
        b = place[static_cast<size_t>(b)];
        there = there && b >= 0;
      }
      if (step.kind == HostStep::Kind::kRun) {
        for (size_t r = 0; r < ResultShapes(ModuleOf(p, step.program)).size(); ++r)
          place.push_back(there ? next++ : -1);
      }
      if (there) c.schedule.push_back(std::move(step));
    }
    if (!c.schedule.empty()) all.push_back(std::move(c));
  }
  return all;
}

}  // namespace backplane::cli::fuzz
