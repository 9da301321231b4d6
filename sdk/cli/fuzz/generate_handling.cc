// Chooses how the host passes arguments and reads results: orders of dimensions, donation, tiled copies.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {

std::vector<std::string> DescribeHandling(const FuzzProgram& program) {
  std::vector<std::string> lines;
  const Devices devices = GetDevices(*program.module);
  if (devices.count() > 1) {
    lines.push_back(absl::StrCat("on ", devices.replicas, " replicas of ", devices.partitions,
                                 " partitions, the elements of each argument moved on by the device's number"));
  }
  for (size_t i = 0; i < program.host_orders.size(); ++i) {
    const HostOrder& order = program.host_orders[i];
    if (!order.minor_to_major.empty()) {
      lines.push_back(absl::StrCat("argument ", i, " with byte strides: order {",
                                   absl::StrJoin(order.minor_to_major, ","), "}, gap ", order.gap));
    }
    if (!order.tile.empty()) {
      lines.push_back(absl::StrCat("argument ", i, " once to the device in tiles of (", absl::StrJoin(order.tile, ","),
                                   ") and back"));
    }
    if (order.kept) lines.push_back(absl::StrCat("argument ", i, " not to be taken this time"));
  }
  for (std::string& line : DescribeSchedule(program)) lines.push_back(std::move(line));
  return lines;
}

Layout Generator::AnyLayout(int64_t rank) {
  const std::vector<int64_t> order = random_.Permutation(rank);
  Layout layout;
  layout.minor_to_major.assign(order.begin(), order.end());
  return layout;
}

Shape Generator::AnyOrder(Shape shape) {
  shape.set_row_major();
  if (shape.IsTuple()) {
    for (Shape& element : shape.mutable_tuple_shapes()) element = AnyOrder(std::move(element));
  } else if (shape.IsArray()) {
    shape.set_layout(AnyLayout(shape.rank()));
  }
  return shape;
}

void Generator::ChooseHandling() {
  ModuleConfig& config = program_.module->config();
  const Computation& main = *program_.module->entry();
  const Shape& result = main.root()->shape();
  // Arguments and results may be requested in any order of dimensions, and the host's arguments may have any order.
  if (random_.Chance(15)) config.result_layout = AnyOrder(result);
  const bool ordered = random_.Chance(15), donated = random_.Chance(structured_ ? 40 : 15);
  for (const Instruction* p : main.parameters()) {
    if (!ordered) break;
    Shape shape = p->shape();
    shape.set_row_major();
    config.parameter_layouts.push_back(random_.Chance(70) ? AnyOrder(std::move(shape)) : std::move(shape));
  }
  for (const Literal& argument : program_.arguments) {
    HostOrder order;
    if (argument.shape().rank() > 0 && random_.Chance(20)) {
      order.minor_to_major = random_.Permutation(argument.shape().rank());
      order.gap = random_.Chance(30) ? random_.Between(1, 3) : 0;
    }
    if (argument.shape().rank() > 0 && argument.num_elements() > 0 && random_.Chance(5)) {
      const int64_t rank = random_.Between(1, std::min<int64_t>(argument.shape().rank(), 2));
      for (int64_t k = 0; k < rank; ++k) order.tile.push_back(random_.Pick(std::vector<int64_t>{1, 2, 4, 8, 128}));
    }
    program_.host_orders.push_back(std::move(order));
  }
  if (!donated) return;
  // Donates an argument, to a result of the same shape or without a result.
  std::set<int64_t> taken;
  auto order_of = [](const Shape& shape) {
    return shape.has_layout() ? shape.layout() : Layout::RowMajor(shape.rank());
  };
  const bool asked = config.result_layout.element_type() != PrimitiveType::kInvalid;
  for (int64_t p = 0; p < static_cast<int64_t>(main.parameters().size()); ++p) {
    if (!random_.Chance(60)) continue;
    const Shape& shape = main.parameter(p)->shape();
    bool aliased = false;
    const int64_t results = result.IsTuple() ? result.tuple_size() : 1;
    for (int64_t r = 0; r < results && !aliased; ++r) {
      const Shape& out = result.IsTuple() ? result.tuple_shapes(r) : result;
      if (!(out == shape) || taken.count(r) > 0) continue;
      const Shape& in = config.parameter_layouts.empty() ? shape : config.parameter_layouts[static_cast<size_t>(p)];
      const Shape& wanted = !asked             ? out
                            : result.IsTuple() ? config.result_layout.tuple_shapes(r)
                                               : config.result_layout;
      if (!(order_of(in) == order_of(wanted))) continue;
      taken.insert(r);
      config.input_output_aliases.push_back({result.IsTuple() ? Ints{r} : Ints{}, p, {}, random_.Chance(30)});
      aliased = true;
    }
    if (!aliased) config.buffer_donors.push_back({p, {}});
    program_.host_orders[static_cast<size_t>(p)].kept = random_.Chance(30);
  }
}

}  // namespace backplane::cli::fuzz
