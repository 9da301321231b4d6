#include "api/extensions/layouts.h"

#include "core/ir/builder.h"
#include "sdk/shim/executable_views.h"
#include "sdk/shim/extensions/extensions.h"
#include "sdk/shim/objects.h"

namespace backplane::shim {
namespace {

absl::Status Destroy(PJRT_Layouts_MemoryLayout_Destroy_Args& a) {
  delete a.layout;
  return absl::OkStatus();
}

absl::Status Serialize(PJRT_Layouts_MemoryLayout_Serialize_Args& a) {
  BP_REQUIRE(a.layout);
  auto* holder = new OwnedBytes{a.layout->layout.ToString()};  // the form that XLA's layout parser reads
  a.serialized_bytes = holder->bytes.data();
  a.serialized_bytes_size = holder->bytes.size();
  a.serialized_layout = reinterpret_cast<PJRT_Layouts_SerializedLayout*>(holder);
  a.serialized_layout_deleter = &DeleteOwnedBytes<PJRT_Layouts_SerializedLayout>;
  return absl::OkStatus();
}

absl::Status OfBuffer(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args& a) {
  BP_REQUIRE(a.buffer);
  a.layout = new PJRT_Layouts_MemoryLayout{a.buffer->shape.has_layout() ? a.buffer->shape.layout() : Layout()};
  return absl::OkStatus();
}

absl::Status DefaultOfClient(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args& a) {
  BP_REQUIRE(a.client);
  ASSIGN_OR_RETURN(Shape shape, ReadShape(a.type, a.dims, a.num_dims));
  RETURN_IF_ERROR(SetLayout(*a.client->state, nullptr, &shape));
  a.layout = new PJRT_Layouts_MemoryLayout{shape.has_layout() ? shape.layout() : Layout()};
  return absl::OkStatus();
}

// Without a client there is no memory to query, so the compiler is: the layout is the one that a program for this
// topology gives to an argument without a requested layout.
absl::Status DefaultOfTopology(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args& a) {
  BP_REQUIRE(a.topology_description);
  ASSIGN_OR_RETURN(Shape shape, ReadShape(a.type, a.dims, a.num_dims));
  auto module = std::make_unique<Module>("default_layout");
  Builder builder(module.get(), "main");
  ASSIGN_OR_RETURN(Value argument, builder.Parameter(0, shape.WithoutLayout()));
  ASSIGN_OR_RETURN(Computation * entry, builder.Build(argument));
  module->set_entry(entry);
  ASSIGN_OR_RETURN(std::shared_ptr<Executable> executable,
                   Plugin().backend->Compile(std::move(module), CompileOptions(), a.topology_description->topology));
  const std::vector<ParameterInfo>& parameters = executable->signature().parameters;
  const bool told = parameters.size() == 1 && parameters[0].shape.IsArray() && parameters[0].shape.has_layout();
  a.layout = new PJRT_Layouts_MemoryLayout{told ? parameters[0].shape.layout() : Layout::RowMajor(shape.rank())};
  return absl::OkStatus();
}

absl::Status OfOutputs(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args& a) {
  BP_REQUIRE(a.executable);
  const LayoutViews& views = a.executable->views().output_layouts;
  a.num_outputs = views.pointers.size();
  a.layouts = const_cast<PJRT_Layouts_MemoryLayout**>(views.pointers.data());
  return absl::OkStatus();
}

absl::Status OfParameters(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args& a) {
  BP_REQUIRE(a.executable);
  const LayoutViews& views = a.executable->views().parameter_layouts;
  a.num_parameters = views.pointers.size();
  a.layouts = const_cast<PJRT_Layouts_MemoryLayout**>(views.pointers.data());
  return absl::OkStatus();
}

}  // namespace

PJRT_Extension_Base* LayoutsExtension() {
  static PJRT_Layouts_Extension extension = [] {
    PJRT_Layouts_Extension e{};
    e.base = {PJRT_Layouts_Extension_STRUCT_SIZE, PJRT_Extension_Type_Layouts, nullptr};
    e.PJRT_Layouts_MemoryLayout_Destroy = BP_ENTRY(PJRT_Layouts_MemoryLayout_Destroy, &Destroy);
    e.PJRT_Layouts_MemoryLayout_Serialize = BP_ENTRY(PJRT_Layouts_MemoryLayout_Serialize, &Serialize);
    e.PJRT_Layouts_PJRT_Client_GetDefaultLayout = BP_ENTRY(PJRT_Layouts_PJRT_Client_GetDefaultLayout, &DefaultOfClient);
    e.PJRT_Layouts_PJRT_Buffer_MemoryLayout = BP_ENTRY(PJRT_Layouts_PJRT_Buffer_MemoryLayout, &OfBuffer);
    e.PJRT_Layouts_PJRT_Topology_GetDefaultLayout =
        BP_ENTRY(PJRT_Layouts_PJRT_Topology_GetDefaultLayout, &DefaultOfTopology);
    e.PJRT_Layouts_PJRT_Executable_GetOutputLayouts =
        BP_ENTRY(PJRT_Layouts_PJRT_Executable_GetOutputLayouts, &OfOutputs);
    e.PJRT_Layouts_PJRT_Executable_GetParameterLayouts =
        BP_ENTRY(PJRT_Layouts_PJRT_Executable_GetParameterLayouts, &OfParameters);
    return e;
  }();
  return &extension.base;
}

}  // namespace backplane::shim
