// Programs: compiled, executed, serialized and deserialized, with valid and invalid arguments.
#include <limits>

#include "absl/strings/str_cat.h"
#include "sdk/host/compile_options.h"
#include "tests/sequences/actor.h"

namespace backplane::sequences {
namespace {

void CompileOne(Actor& actor) {
  if (const Item client = actor.PickClient(); client != nullptr) actor.Compile(client);
}

void AbsurdCompile(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  const Program& program = AllPrograms()[0];
  std::string text = program.text, format = "mlir";
  host::CompileOptions options;
  std::string bytes = options.Serialize();
  PJRT_Program p{};
  p.struct_size = PJRT_Program_STRUCT_SIZE;
  PREPARE(a, PJRT_Client_Compile);
  a.client = static_cast<PJRT_Client*>(client->handle);
  a.program = &p;
  bool must_fail = true;
  switch (actor.random.Below(8)) {
    case 0:
      a.program = nullptr;
      break;
    case 1:
      format = "no such format";
      break;
    case 2:
      text.resize(actor.random.Below(text.size() - 8));
      break;
    case 3:
      for (int i = 0; i < 3; ++i) text[actor.random.Below(text.size())] = static_cast<char>(actor.random.Below(256));
      must_fail = false;
      break;
    case 4:
      for (int i = 0; i < 20; ++i) bytes += static_cast<char>(actor.random.Below(256));
      must_fail = false;
      break;
    case 5:
      options.num_replicas = actor.random.OneIn(2) ? 1000 : std::numeric_limits<int>::max();
      if (actor.random.OneIn(2)) options.num_partitions = std::numeric_limits<int>::max();
      bytes = options.Serialize();
      break;
    case 6:
      options.device_assignment = {actor.random.OneIn(2) ? -1 : 100000};
      bytes = options.Serialize();
      break;
    default:
      p.struct_size = 8;
  }
  p.code = text.data();
  p.code_size = text.size();
  p.format = format.data();
  p.format_size = format.size();
  a.compile_options = bytes.data();
  a.compile_options_size = bytes.size();
  if (must_fail) return actor.ExpectFailure(Fn::PJRT_Client_Compile, &a);
  if (actor.Call(Fn::PJRT_Client_Compile, &a).ok())
    actor.Destroy(actor.Add(Type::LoadedExecutable, a.executable, client));
}

Item SomeLoaded(Actor& actor) {
  const Item loaded =
      actor.Pick(Type::LoadedExecutable, [](const Thing& t) { return !t.deleted && t.program != nullptr; });
  if (loaded != nullptr) return loaded;
  const Item client = actor.PickClient();
  return client == nullptr ? nullptr : actor.Compile(client);
}

// The arguments of one execute call.
struct Launch {
  Launch(Actor& actor, const Item& l) : loaded(l), program(*l->program) {
    args.executable = static_cast<PJRT_LoadedExecutable*>(l->handle);
    options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
    const auto devices = static_cast<size_t>(program.replicas);
    first_device = l->portable ? actor.random.Below(l->client->devices.size()) : l->device;
    for (size_t d = 0; d < devices; ++d) {
      items.emplace_back();
      for (size_t i = 0; i < program.parameters.size(); ++i)
        items[d].push_back(
            actor.BufferLike(l->client, GetDevice(d), program.parameters[i], program.donated >= 0 ? items[d] : None()));
    }
    if (program.donated >= 0) {  // a donated buffer must be our own and used only by this call
      for (auto& row : items) {
        Item& given = row[static_cast<size_t>(program.donated)];
        given = actor.NewBuffer(l->client, given->device, actor.Fill(program.parameters[0]));
      }
    }
    SetLists(devices);
    outputs.assign(devices, std::vector<PJRT_Buffer*>(program.results.size() + 1, nullptr));
    for (auto& row : outputs) output_rows.push_back(row.data());
    events.assign(devices, nullptr);
    args.options = &options;
    args.output_lists = output_rows.data();
    if (actor.random.OneIn(2)) args.device_complete_events = events.data();
    if (l->portable) args.execute_device = l->client->devices[first_device];
  }
  static const std::vector<Item>& None() {
    static const std::vector<Item>& none = *new std::vector<Item>;
    return none;
  }
  size_t GetDevice(size_t row) const { return first_device + row; }
  void SetLists(size_t devices) {
    handles.clear();
    rows.clear();
    for (const auto& row : items) {
      handles.emplace_back();
      for (const Item& i : row) handles.back().push_back(i == nullptr ? nullptr : static_cast<PJRT_Buffer*>(i->handle));
    }
    for (const auto& row : handles) rows.push_back(row.data());
    args.argument_lists = rows.data();
    args.num_devices = devices;
    args.num_args = items.empty() ? 0 : items[0].size();
  }
  // Adds outputs to the model and destroys them; for calls that may succeed or fail.
  void DropOutputs(Actor& actor) {
    for (size_t d = 0; d < outputs.size(); ++d) {
      for (size_t i = 0; i < program.results.size(); ++i)
        actor.Destroy(actor.Add(Type::Buffer, outputs[d][i], loaded->client));
      if (args.device_complete_events != nullptr) (void)actor.Await(events[d]);
    }
  }

  const Item loaded;
  const Program& program;
  size_t first_device = 0;
  std::vector<std::vector<Item>> items;
  std::vector<std::vector<PJRT_Buffer*>> handles, outputs;
  std::vector<PJRT_Buffer* const*> rows;
  std::vector<PJRT_Buffer**> output_rows;
  std::vector<PJRT_Event*> events;
  PJRT_ExecuteOptions options{};
  PJRT_LoadedExecutable_Execute_Args args{PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE};
};

void Execute(Actor& actor) {
  const Item loaded = SomeLoaded(actor);
  if (loaded == nullptr) return;
  Launch launch(actor, loaded);
  const Program& program = launch.program;
  const int64_t keep[] = {0};
  const bool kept = program.donated == 0 && actor.random.OneIn(3);
  if (kept) {
    launch.options.non_donatable_input_indices = keep;
    launch.options.num_non_donatable_input_indices = 1;
  }
  if (const Item context = actor.Pick(Type::ExecuteContext); context != nullptr && actor.random.OneIn(2))
    launch.options.context = static_cast<PJRT_ExecuteContext*>(context->handle);
  if (actor.random.OneIn(8)) launch.args.options = nullptr;
  std::vector<std::vector<const Array*>> values;
  for (const auto& row : launch.items) {
    values.emplace_back();
    for (const Item& i : row) values.back().push_back(&i->array);
  }
  actor.ExpectSuccess(Fn::PJRT_LoadedExecutable_Execute, &launch.args);
  const bool taken = program.donated >= 0 && !(kept && launch.args.options != nullptr);
  for (size_t d = 0; d < launch.items.size(); ++d) {
    if (taken) launch.items[d][static_cast<size_t>(program.donated)]->contents = Thing::kDonated;
    const std::vector<Array> results = program.run(values, d);
    for (size_t i = 0; i < results.size(); ++i) {
      const Item out = actor.Add(Type::Buffer, launch.outputs[d][i], loaded->client);
      out->array = results[i];
      out->device = launch.GetDevice(d);
      if (!actor.random.OneIn(3)) actor.Read(out);
    }
    if (launch.outputs[d].back() != nullptr) throw Wrong{"an execution wrote behind its list of outputs"};
    if (launch.args.device_complete_events != nullptr) actor.AwaitOk(launch.events[d], "an execution");
  }
  if (kept && !taken) return;
  if (kept) return;
  for (const auto& row : launch.items) {
    for (const Item& i : row) {
      if (i->contents == Thing::kThere && actor.random.OneIn(6)) actor.Read(i);
    }
  }
}

void AbsurdExecute(Actor& actor) {
  const Item loaded = SomeLoaded(actor);
  if (loaded == nullptr) return;
  Launch launch(actor, loaded);
  auto& a = launch.args;
  const bool has_arguments = !launch.program.parameters.empty();
  const size_t devices = launch.items.size();
  Item& some = has_arguments ? launch.items[actor.random.Below(devices)][actor.random.Below(launch.items[0].size())]
                             : launch.items.emplace_back(1)[0];
  if (!has_arguments) launch.items.resize(devices);
  const int64_t far[] = {actor.random.OneIn(2) ? 99 : -1};
  PJRT_SendCallbackInfo* no_callbacks[4] = {};
  switch (actor.random.Below(13)) {
    case 0:  // a superfluous argument
      for (auto& row : launch.items) row.push_back(actor.NewBuffer(loaded->client, 0, actor.RandomArray()));
      launch.SetLists(devices);
      break;
    case 1:
      if (!has_arguments) return;
      for (auto& row : launch.items) row.pop_back();
      launch.SetLists(devices);
      break;
    case 2:
      if (!has_arguments) return;
      some = nullptr;
      launch.SetLists(devices);
      break;
    case 3:
      if (!has_arguments) return;
      some = actor.NewBuffer(loaded->client, some->device, actor.Fill({PJRT_Buffer_Type_S64, {3, 1, 2}, ""}));
      launch.SetLists(devices);
      break;
    case 4: {  // without contents
      if (!has_arguments) return;
      some = actor.NewBuffer(loaded->client, some->device, actor.Fill(some->array));
      PREPARE(d, PJRT_Buffer_Delete);
      d.buffer = static_cast<PJRT_Buffer*>(some->handle);
      actor.ExpectSuccess(Fn::PJRT_Buffer_Delete, &d);
      some->contents = Thing::kDeleted;
      launch.SetLists(devices);
      actor.Expect(kUseAfterDelete);
      break;
    }
    case 5: {
      const Item dead = actor.parallel ? nullptr : actor.PickDead(Type::Buffer);
      if (!has_arguments || dead == nullptr) return;
      some = dead;
      launch.SetLists(devices);
      actor.Expect(kUseAfterDestroy);
      break;
    }
    case 6: {
      const Item other = actor.Pick(Type::Client, [&](const Thing& t) { return &t != loaded->client.get(); });
      if (!has_arguments || other == nullptr) return;
      some = actor.NewBuffer(other, 0, actor.Fill(some->array));
      launch.SetLists(devices);
      break;
    }
    case 7: {  // on another device
      if (!has_arguments || loaded->client->devices.size() < 2) return;
      const size_t elsewhere = (some->device + 1) % loaded->client->devices.size();
      some = actor.NewBuffer(loaded->client, elsewhere, actor.Fill(some->array));
      launch.SetLists(devices);
      break;
    }
    case 8:  // one device too many
      launch.items.push_back(launch.items[0]);
      launch.outputs.push_back(std::vector<PJRT_Buffer*>(launch.program.results.size() + 1, nullptr));
      launch.output_rows.clear();
      for (auto& row : launch.outputs) launch.output_rows.push_back(row.data());
      launch.events.resize(devices + 1);
      launch.SetLists(devices + 1);
      a.output_lists = launch.output_rows.data();
      if (a.device_complete_events != nullptr) a.device_complete_events = launch.events.data();
      break;
    case 9:
      if (launch.program.donated < 0) return;
      launch.options.non_donatable_input_indices = actor.random.OneIn(2) ? far : nullptr;
      launch.options.num_non_donatable_input_indices = 1;
      break;
    case 10:
      a.output_lists = nullptr;
      break;
    case 11:
      if (actor.random.OneIn(2)) {
        launch.options.num_send_ops = 1;
        if (actor.random.OneIn(2)) launch.options.send_callbacks = no_callbacks;
      } else {
        launch.options.struct_size = actor.random.Below(16);
      }
      break;
    default: {  // donates one buffer twice
      if (launch.program.donated < 0) return;
      for (auto& row : launch.items) row[1] = row[0];
      launch.SetLists(devices);
    }
  }
  actor.ExpectFailure(Fn::PJRT_LoadedExecutable_Execute, &a);
  // A rejected call must not have donated anything.
  for (const auto& row : launch.items) {
    for (const Item& i : row) {
      if (i != nullptr && i->alive && i->contents == Thing::kThere && actor.random.OneIn(2)) actor.Read(i);
    }
  }
}

// An argument with an error gives outputs with errors.
void ExecuteOnError(Actor& actor) {
  const Item loaded = SomeLoaded(actor);
  if (loaded == nullptr || loaded->program->parameters.empty() || loaded->program->donated >= 0 ||
      loaded->program->replicas != 1)
    return;
  Launch launch(actor, loaded);
  if (launch.first_device != 0) return;
  PREPARE(e, PJRT_Client_CreateErrorBuffer);
  e.client = static_cast<PJRT_Client*>(loaded->client->handle);
  e.error_code = PJRT_Error_Code_ABORTED;
  e.error_message = "planned";
  e.error_message_size = 7;
  e.shape_dims = loaded->program->parameters[0].dims.data();
  e.shape_num_dims = loaded->program->parameters[0].dims.size();
  e.shape_element_type = loaded->program->parameters[0].type;
  e.memory = loaded->client->memories[0];
  actor.ExpectSuccess(Fn::PJRT_Client_CreateErrorBuffer, &e);
  const Item error = actor.Add(Type::Buffer, e.buffer, loaded->client);
  error->array = loaded->program->parameters[0];
  error->contents = Thing::kError;
  launch.items[0][0] = error;
  launch.SetLists(1);
  if (!actor.Call(Fn::PJRT_LoadedExecutable_Execute, &launch.args).ok()) return;
  for (size_t i = 0; i < launch.program.results.size(); ++i) {
    const Item out = actor.Add(Type::Buffer, launch.outputs[0][i], loaded->client);
    out->array = launch.program.results[i];
    out->array.bytes.resize(NumElements(out->array.dims) * ElementBytes(out->array.type));
    out->contents = Thing::kError;
    actor.Read(out);
  }
  if (launch.args.device_complete_events != nullptr) (void)actor.Await(launch.events[0]);
}

void ExecuteDeleted(Actor& actor) {
  const Item loaded = actor.Pick(Type::LoadedExecutable, [](const Thing& t) { return t.deleted; });
  if (loaded == nullptr || loaded->program == nullptr) return;
  Launch launch(actor, loaded);
  actor.Expect(kUseAfterDelete);
  actor.ExpectFailure(Fn::PJRT_LoadedExecutable_Execute, &launch.args);
}

// Serializes and deserializes, unchanged or corrupted.
void SerializeAndLoad(Actor& actor) {
  const Item loaded = SomeLoaded(actor);
  if (loaded == nullptr) return;
  PREPARE(g, PJRT_LoadedExecutable_GetExecutable);
  g.loaded_executable = static_cast<PJRT_LoadedExecutable*>(loaded->handle);
  actor.ExpectSuccess(Fn::PJRT_LoadedExecutable_GetExecutable, &g);
  const Item executable = actor.Add(Type::Executable, g.executable, loaded->client);
  executable->program = loaded->program;
  executable->device = loaded->device;
  PREPARE(s, PJRT_Executable_Serialize);
  s.executable = g.executable;
  actor.ExpectSuccess(Fn::PJRT_Executable_Serialize, &s);
  std::string bytes(s.serialized_bytes, s.serialized_bytes_size);
  s.serialized_executable_deleter(s.serialized_executable);
  PREPARE(d, PJRT_Executable_DeserializeAndLoad);
  d.client = static_cast<PJRT_Client*>(loaded->client->handle);
  bool right = false;
  switch (actor.random.Below(5)) {
    case 0:
      bytes.resize(actor.random.Below(bytes.size()));
      break;
    case 1:
      bytes[actor.random.Below(bytes.size())] ^= static_cast<char>(1 << actor.random.Below(8));
      break;
    case 2:
      bytes.insert(actor.random.Below(bytes.size()), "\xff\xff\xff\xff\x7f");
      break;
    default:
      right = true;
  }
  d.serialized_executable = bytes.data();
  d.serialized_executable_size = bytes.size();
  if (!right) {
    // Some corruptions give another valid program.
    if (actor.Call(Fn::PJRT_Executable_DeserializeAndLoad, &d).ok())
      actor.Destroy(actor.Add(Type::LoadedExecutable, d.loaded_executable, loaded->client));
    return;
  }
  actor.ExpectSuccess(Fn::PJRT_Executable_DeserializeAndLoad, &d);
  const Item again = actor.Add(Type::LoadedExecutable, d.loaded_executable, loaded->client);
  again->program = loaded->program;
  again->portable = loaded->portable;
  again->device = loaded->device;
}

void CompileAhead(Actor& actor) {
  const Item client = actor.PickClient();
  if (client == nullptr) return;
  PREPARE(t, PJRT_Client_TopologyDescription);
  t.client = static_cast<PJRT_Client*>(client->handle);
  actor.ExpectSuccess(Fn::PJRT_Client_TopologyDescription, &t);
  const Program& program = AllPrograms()[actor.random.Below(6)];
  std::string text = program.text;
  const std::string options = host::CompileOptions().Serialize();
  PJRT_Program p{};
  p.struct_size = PJRT_Program_STRUCT_SIZE;
  p.code = text.data();
  p.code_size = text.size();
  p.format = "mlir";
  p.format_size = 4;
  PREPARE(a, PJRT_Compile);
  a.topology = t.topology;
  a.program = &p;
  a.compile_options = options.data();
  a.compile_options_size = options.size();
  if (actor.random.OneIn(4)) {
    p.code_size /= 2;
    return actor.ExpectFailure(Fn::PJRT_Compile, &a);
  }
  actor.ExpectSuccess(Fn::PJRT_Compile, &a);
  const Item executable = actor.Add(Type::Executable, a.executable, nullptr);
  executable->program = &program;
  PREPARE(l, PJRT_Client_Load);
  l.client = t.client;
  l.executable = a.executable;
  l.compile_options = options.data();
  l.compile_options_size = options.size();
  host::CompileOptions absurd;
  absurd.num_replicas = 3;
  const std::string absurd_bytes = absurd.Serialize();
  if (actor.random.OneIn(4)) {
    l.compile_options = absurd_bytes.data();
    l.compile_options_size = absurd_bytes.size();
    return actor.ExpectFailure(Fn::PJRT_Client_Load, &l);
  }
  actor.ExpectSuccess(Fn::PJRT_Client_Load, &l);
  const Item loaded = actor.Add(Type::LoadedExecutable, l.loaded_executable, client);
  loaded->program = &program;
}

}  // namespace

std::vector<Step> ProgramSteps() {
  return {{"compile", 3, CompileOne, true},
          {"absurd compile", 4, AbsurdCompile, true},
          {"execute", 16, Execute, true},
          {"absurd execute", 10, AbsurdExecute, true},
          {"execute on an error", 2, ExecuteOnError, true},
          {"execute deleted", 2, ExecuteDeleted, false},
          {"serialize and load", 2, SerializeAndLoad, true},
          {"compile ahead", 1, CompileAhead, false}};
}

}  // namespace backplane::sequences
