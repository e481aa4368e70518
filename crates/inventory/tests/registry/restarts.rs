//! Restarts of servers that are changed at the same time.

use tidings_inventory::RegistryRefusal;
use tidings_testkit::{Gate, Server, within};
use tokio::task::JoinHandle;

use crate::house::{House, full, put};

/// A server that starts at once the first time, and hangs when it is started again.
async fn restarting(house: &House, gate: &Gate, server: &Server) -> JoinHandle<Result<(), RegistryRefusal>> {
    gate.open();
    house.add(&[("f", server)]).await;
    gate.close();
    let arrived = gate.arrived();
    let registry = house.registry.clone();
    let restarting = tokio::spawn(async move { registry.restart("f").await });
    gate.reached(arrived + 1).await;
    restarting
}

// edges F4
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_over_when_its_server_is_removed_or_replaced() {
    let gate = Gate::new();
    let slow = full("slow").hold("initialize", &gate).stdio().await;
    let good = full("good").http().await;
    let house = House::open("").await;
    let restart = restarting(&house, &gate, &slow).await;
    house.remove("f").await;
    let refused = within("the end of the restart", restart).await.unwrap().unwrap_err();
    assert!(matches!(refused, RegistryRefusal::Unknown { .. }), "{refused}");
    let restart = restarting(&house, &gate, &slow).await;
    house.registry.apply(vec![put("f", crate::house::keys(&good))]).await.unwrap();
    let refused = within("the end of the restart", restart).await.unwrap().unwrap_err();
    assert!(matches!(refused, RegistryRefusal::Overtaken { .. }), "{refused}");
    house.close().await;
}

// edges F4
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_that_hangs_holds_up_no_shutdown() {
    let gate = Gate::new();
    let slow = full("slow").hold("initialize", &gate).stdio().await;
    let house = House::open("").await;
    let restart = restarting(&house, &gate, &slow).await;
    house.close().await;
    let refused = within("the end of the restart", restart).await.unwrap().unwrap_err();
    assert!(matches!(refused, RegistryRefusal::NotRunning), "{refused}");
}
