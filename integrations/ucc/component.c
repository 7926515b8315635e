/* What UCC finds when it loads the layer: its table of functions, if it is the UCC that this was
 * compiled for. */
#include "component.h"

#include <stdio.h>

static ucc_status_t get_properties(ucc_base_lib_properties_t* properties) {
  properties->default_team_size = 2;
  properties->min_team_size = 2;
  properties->max_team_size = UCC_RANK_MAX;
  return UCC_OK;
}

static ucc_status_t get_attributes(const ucc_base_lib_t* lib, ucc_base_lib_attr_t* attributes) {
  attributes->flags = 0;
  attributes->attr.thread_mode = UCC_THREAD_MULTIPLE;
  attributes->attr.coll_types = TL_IBCOLL_COLLECTIVES;
  if (attributes->mask & UCC_BASE_LIB_ATTR_FIELD_MIN_TEAM_SIZE)
    attributes->min_team_size = lib->min_team_size;
  if (attributes->mask & UCC_BASE_LIB_ATTR_FIELD_MAX_TEAM_SIZE)
    attributes->max_team_size = UCC_RANK_MAX;
  return UCC_OK;
}

static ucc_config_field_t tl_ibcoll_lib_config_table[] = {
    {"", "", NULL, 0, UCC_CONFIG_TYPE_TABLE(ucc_tl_lib_config_table)}, {NULL}};

static ucc_config_field_t tl_ibcoll_context_config_table[] = {
    {"", "", NULL, ucc_offsetof(tl_ibcoll_context_config, super),
     UCC_CONFIG_TYPE_TABLE(ucc_tl_context_config_table)},
    {"YIELD", "auto",
     "Let other processes run whenever a collective is tested and nothing has moved.\n"
     "auto: where more processes of the job share a server than may run at a time",
     ucc_offsetof(tl_ibcoll_context_config, yield), UCS_CONFIG_TYPE_ON_OFF_AUTO},
    {NULL}};

static ucc_tl_iface_t g_interface = {
    .super = {.name = "ibcoll", .score = TL_IBCOLL_SCORE},
    .tl_lib_config = {.name = "TL_IBCOLL",
                      .prefix = "TL_IBCOLL_",
                      .table = tl_ibcoll_lib_config_table,
                      .size = sizeof(ucc_tl_lib_config_t)},
    .tl_context_config = {.name = "TL_IBCOLL",
                          .prefix = "TL_IBCOLL_",
                          .table = tl_ibcoll_context_config_table,
                          .size = sizeof(tl_ibcoll_context_config)},
    .lib = {.init = UCC_CLASS_NEW_FUNC_NAME(tl_ibcoll_lib),
            .finalize = UCC_CLASS_DELETE_FUNC_NAME(tl_ibcoll_lib),
            .get_attr = get_attributes,
            .get_properties = get_properties},
    .context = {.create = UCC_CLASS_NEW_FUNC_NAME(tl_ibcoll_context),
                .create_epilog = tl_ibcoll_context_join,
                .destroy = UCC_CLASS_DELETE_FUNC_NAME(tl_ibcoll_context),
#if UCC_API_MINOR >= 5 /* UCC calls them without looking whether they are there */
                .mem_map = tl_ibcoll_mem_map,
                .mem_unmap = tl_ibcoll_mem_unmap,
                .memh_pack = tl_ibcoll_memh_pack,
#endif
                .get_attr = tl_ibcoll_context_get_attr},
    .team = {.create_post = UCC_CLASS_NEW_FUNC_NAME(tl_ibcoll_team),
             .create_test = tl_ibcoll_team_test,
             .destroy = tl_ibcoll_team_destroy,
             .get_scores = tl_ibcoll_team_get_scores},
    .coll = {.init = tl_ibcoll_collective_init}};

UCC_CLASS_INIT_FUNC(tl_ibcoll_lib, const ucc_base_lib_params_t* parameters,
                    const ucc_base_config_t* config) {
  (void)parameters;
  UCC_CLASS_CALL_SUPER_INIT(ucc_tl_lib_t, &g_interface,
                            ucc_derived_of(config, ucc_tl_lib_config_t));
  return UCC_OK;
}

UCC_CLASS_CLEANUP_FUNC(tl_ibcoll_lib) { (void)self; }

UCC_CLASS_DEFINE(tl_ibcoll_lib, ucc_tl_lib_t);
UCC_CLASS_DEFINE_NEW_FUNC(tl_ibcoll_lib, ucc_base_lib_t, const ucc_base_lib_params_t*,
                          const ucc_base_config_t*);
UCC_CLASS_DEFINE_DELETE_FUNC(tl_ibcoll_lib, ucc_base_lib_t);

/** Minor versions of UCC change its structs, and nothing in UCC checks that a layer has its own. */
static int is_my_ucc(void) {
  unsigned major, minor, release;
  ucc_get_version(&major, &minor, &release);
  return major == UCC_API_MAJOR && minor == UCC_API_MINOR;
}

__attribute__((constructor)) static void register_settings(void) {
  if (!is_my_ucc()) {
    fprintf(stderr, "ibcoll: UCC here is %s, this layer is for %d.%d: not used\n",
            ucc_get_version_string(), UCC_API_MAJOR, UCC_API_MINOR);
    return;
  }
  ucs_list_add_tail(&ucc_config_global_list, &g_interface.tl_lib_config.list);
  ucs_list_add_tail(&ucc_config_global_list, &g_interface.tl_context_config.list);
}

__attribute__((destructor)) static void forget_settings(void) {
  if (!is_my_ucc()) return;
  ucs_list_del(&g_interface.tl_lib_config.list);
  ucs_list_del(&g_interface.tl_context_config.list);
}

/** UCC looks for its table of functions under this name, before it has read anything of it. As the
 * name is resolved when it is looked up, another UCC gets none, and goes on without this layer. */
static void (*find_interface(void))(void) {
  return is_my_ucc() ? (void (*)(void)) & g_interface : NULL;
}
__attribute__((ifunc("find_interface"), visibility("default"))) void ucc_tl_ibcoll(void);
