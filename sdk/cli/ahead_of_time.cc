#include "sdk/cli/ahead_of_time.h"

#include "absl/strings/str_cat.h"
#include "api/backplane_c_api.h"
#include "sdk/host/status.h"
#include "sdk/host/topology.h"

namespace backplane::cli {

absl::StatusOr<CompiledAhead> CompileAhead(const std::string& what, const PluginOptions& options,
                                           const std::string& target, const host::Program& program,
                                           const host::CompileOptions& compile_options) {
  BP_ASSIGN_OR_RETURN(host::FoundPlugin found, Locate(what, options));
  const host::Plugin* plugin = nullptr;
  {
    const PluginStartup starting_up(found.library);
    absl::StatusOr<const host::Plugin*> loaded = host::Plugin::Load(found.library);
    BP_RETURN_IF_ERROR(FromPlugin(loaded.status()));
    plugin = *loaded;
    BP_RETURN_IF_ERROR(FromPlugin(plugin->Initialize()));
  }
  absl::StatusOr<host::Topology> topology = host::Topology::Create(*plugin, target, found.create_options);
  BP_RETURN_IF_ERROR(
      FromPlugin(host::AddContext(topology.status(), absl::StrCat(found.name, ": no topology ", target))));
  absl::StatusOr<host::Executable> executable = topology->Compile(program, compile_options);
  BP_RETURN_IF_ERROR(FromPlugin(host::AddContext(executable.status(), absl::StrCat(found.name, ": compile"))));
  return CompiledAhead{std::move(found), plugin, *std::move(executable)};
}

absl::StatusOr<std::string> GetCodeText(const host::Plugin& plugin, const std::string& name,
                                        const host::Executable& executable, absl::string_view form) {
  constexpr size_t kNeeded = offsetof(Backplane_Extension, executable_code_text) + sizeof(void*);
  const auto* extension = plugin.Extension<Backplane_Extension>(BACKPLANE_EXTENSION_TYPE, kNeeded);
  if (extension == nullptr || extension->executable_code_text == nullptr)
    return FromPlugin(absl::UnimplementedError(absl::StrCat(name, ": shows no code")));
  Backplane_Executable_CodeText_Args a{};
  a.struct_size = Backplane_Executable_CodeText_Args_STRUCT_SIZE;
  a.executable = executable.raw();
  a.form = form.data();
  a.form_size = form.size();
  BP_RETURN_IF_ERROR(FromPlugin(host::AddContext(plugin.TakeError(extension->executable_code_text(&a)), name)));
  return std::string(a.text, a.text_size);
}

}  // namespace backplane::cli
