"""The `mqadmin` session that is held with our servers and with Apache's: the everyday commands of a broker.

The steps run in this order, once in each of two worlds, so what one changes the next ones show. `{namesrv}`, `{broker}`
and the names a step captures are filled in. Between the commands Java clients work; see `Act`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.interop.mqadmin_script import Mask, Step

CLUSTER = "DefaultCluster"
BROKER = "broker-a"


@dataclass(frozen=True)
class Act:
    """What the Java clients do meanwhile: the name of a function in test_mqadmin_broker."""

    name: str


SCRIPT: tuple[Step | Act, ...] = (
    # An empty broker.
    Step("topicList"),
    Step("topicList -c"),
    Step("clusterList"),
    Step("clusterList -m"),
    Step("brokerStatus -b {broker}"),
    Step(f"brokerStatus -c {CLUSTER}"),
    Step(f"topicRoute -t {BROKER}"),
    Step("topicRoute -t TBW102"),
    Step("consumerProgress"),
    Step("producer -b {broker}"),
    # Topics.
    Step(f"updateTopic -c {CLUSTER} -t Orders -r 4 -w 4"),
    Step("updateTopic -b {broker} -t Narrow -r 2 -w 3 -p 6"),
    Step(f"updateTopic -c {CLUSTER} -t Sorted -r 4 -w 4 -o true"),
    Step("updateTopic -b {broker} -t Unit -r 1 -w 1 -u true -s true"),
    Step("updateTopic -b {broker} -t Fifo -r 1 -w 1 -a +message.type=FIFO"),
    Step("updateTopic -b {broker} -t Fifo -r 1 -w 1 -a -message.type"),
    Step("updateTopic -b {broker} -t Wrong -r 1 -w 1 -a +no.such.attribute=1"),
    Step("updateTopic -b {broker} -t Wrong/Name -r 1 -w 1"),
    Step("updateTopic -b {broker} -t TBW102 -r 1 -w 1"),
    Step("updateTopic -b {broker} -t SCHEDULE_TOPIC_XXXX -r 1 -w 1"),
    Step("updateTopicList -b {broker} -f {topics_file}"),
    Step("updateTopicPerm -b {broker} -t Narrow -p 4"),
    Step("topicRoute -t Narrow", until='"perm":4'),
    Step("updateTopicPerm -b {broker} -t Narrow -p 6"),
    Step(f"updateTopicPerm -c {CLUSTER} -t Narrow -p 6"),
    Step("topicRoute -t Narrow", until='"perm":6'),
    Step("topicRoute -t Orders"),
    Step("topicRoute -t Sorted"),
    Step("topicRoute -t Unit"),
    Step("topicRoute -t Fifo"),
    Step("topicClusterList -t Orders"),
    Step("topicStatus -t Orders"),
    Step("topicStatus -t NoSuchTopic"),
    Step("topicList"),
    Step("allocateMQ -t Orders -i 10.0.0.1,10.0.0.2,10.0.0.3"),
    # Groups.
    Step(f"updateSubGroup -c {CLUSTER} -g Readers"),
    Step("updateSubGroup -b {broker} -g Others -q 3 -r 5 -s true -m true -d true -i 0 -w 1 -a true -o false"),
    Step("updateSubGroup -b {broker} -g Wrong/Name"),
    Step("updateSubGroupList -b {broker} -f {groups_file}"),
    Step("getConsumerConfig -g Readers"),
    Step("getConsumerConfig -g Others"),
    Step("getConsumerConfig -g Group3"),
    Step("getConsumerConfig -g NoSuchGroup"),
    # Configuration.
    Step("getBrokerConfig -b {broker}"),
    Step("updateBrokerConfig -b {broker} -k flushCommitLogTimed -v true"),
    Step("updateBrokerConfig -b {broker} -k brokerPermission -v 4"),
    Step("topicRoute -t Orders", until='"perm":4'),
    Step("updateBrokerConfig -b {broker} -k brokerPermission -v 6"),
    Step("topicRoute -t Orders", until='"perm":6'),
    Step("updateBrokerConfig -b {broker} -k brokerConfigPath -v /elsewhere/broker.conf"),
    Step("updateBrokerConfig -b {broker} -k rocketmqHome -v /elsewhere"),
    Step("updateBrokerConfig -b {broker} -k configBlackList -v nothing"),
    Step(f"updateBrokerConfig -c {CLUSTER} -k flushCommitLogTimed -v false"),
    Step(f"getBrokerConfig -c {CLUSTER}"),
    # Messages.
    Step(
        f"sendMessage -t Orders -b {BROKER} -i 0 -k the-key -c the-tag -p the-body",
        captures={"unique_id": r"SEND_OK\s+(\w+)"},
    ),
    Step("sendMessage -t Automatic -p body"),
    Step("topicRoute -t Automatic", until="queueDatas"),
    Step(f"sendMsgStatus -b {BROKER} -s 16 -c 2"),
    Step("checkMsgSendRT -t Narrow -a 2 -s 16"),
    Act("send"),
    Step(
        f"queryMsgByOffset -t Orders -b {BROKER} -i 0 -o 0",
        until="OffsetID",
        captures={"offset_id": r"OffsetID: +(\w+)"},
    ),
    Step(f"queryMsgByOffset -t Orders -b {BROKER} -i 0 -o 99"),
    Step("queryMsgById -t Orders -i {offset_id}"),
    Step("queryMsgByKey -t Orders -k the-key", until=r"^7F\w+ +0 +0"),
    Step("queryMsgByKey -t Orders -k absent"),
    Step("queryMsgByUniqueKey -t Orders -i {unique_id}", until="Message Body Path"),
    Step("queryMsgByUniqueKey -t Orders -i 7F0000010000000000000000DEADBEEF"),
    Step("queryCq -t Orders -q 0 -i 0 -b {broker}"),
    Step("queryCq -t Orders -q 0 -i 0 -c 5"),
    Step("queryCq -t Orders -q 9 -i 0"),
    Step("printMsg -t Orders"),
    Step("printMsg -t Orders -s the-tag"),
    Step(f"printMsgByQueue -t Orders -a {BROKER} -i 0 -p true -d true"),
    Step(f"consumeMessage -t Orders -b {BROKER} -i 0 -o 0 -c 1"),
    Step("consumeMessage -t Orders -c 3"),
    Step("topicStatus -t Orders"),
    Step(f"topicStatus -t Orders -c {CLUSTER}"),
    Step("brokerStatus -b {broker}"),
    # Groups at work.
    Act("consume"),
    Step("consumerConnection -g Readers", until="CONSUME_PASSIVELY"),
    Step("consumerConnection -g NoSuchGroup"),
    Step("producerConnection -g Writers -t Orders"),
    Step("producerConnection -g NoSuchGroup -t Orders"),
    Step("producer -b {broker}"),
    Step("consumerProgress -g Readers"),
    Step("consumerProgress -g Readers -t Orders"),
    Step("consumerProgress -g Others"),
    Step("consumerProgress -g NoSuchGroup"),
    Step("consumerProgress", until="^Readers +1"),
    Step("consumerStatus -g Readers"),
    Step("consumerStatus -g NoSuchGroup"),
    Step("brokerConsumeStats -b {broker}"),
    Step("brokerConsumeStats -b {broker} -o false -l 0"),
    Step("queryMsgByUniqueKey -t Orders -i {unique_id} -g Readers -d {client}"),
    Step("statsAll -t Orders"),
    Step("setConsumeMode -b {broker} -t Orders -g Readers -m PULL"),
    Step("resetOffsetByTime -g Readers -t Orders -s 0"),
    Act("consume_again"),
    Step("consumerProgress -g Readers"),
    Step("cloneGroupOffset -s Readers -d Others -t Orders"),
    Step("consumerProgress -g Others"),
    Act("stop_consuming"),
    Step("consumerConnection -g Readers"),
    Step("resetOffsetByTime -g Readers -t Orders -s 0"),
    Step("consumerProgress -g Readers"),
    Step("resetOffsetByTime -g Readers -t Orders -s now"),
    Step("skipAccumulatedMessage -g Readers -t Orders"),
    Step("resetOffsetByTime -g Readers -t NoSuchTopic -s 0"),
    Step("consumerProgress -g Readers"),
    # Maintenance.
    Step("cleanExpiredCQ -b {broker}"),
    Step(f"cleanExpiredCQ -c {CLUSTER}"),
    Step("deleteExpiredCommitLog -b {broker}"),
    Step("cleanUnusedTopic -b {broker}"),
    Step(f"cleanUnusedTopic -c {CLUSTER}"),
    Step(f"wipeWritePerm -b {BROKER}"),
    Step("topicRoute -t Orders"),
    Step(f"addWritePerm -b {BROKER}"),
    Step("topicRoute -t Orders"),
    # And away again.
    Step("deleteSubGroup -b {broker} -g Others"),
    Step(f"deleteSubGroup -c {CLUSTER} -g Readers -r true"),
    Step("getConsumerConfig -g Readers"),
    Step("consumerProgress -g Readers"),
    Step("deleteSubGroup -b {broker} -g NoSuchGroup"),
    Step(f"deleteTopic -c {CLUSTER} -t Orders"),
    Step("topicRoute -t Orders"),
    Step(f"deleteTopic -c {CLUSTER} -t NoSuchTopic"),
    Step(f"deleteTopic -c {CLUSTER} -t TBW102"),
    Step("topicStatus -t Orders"),
    Step("topicList"),
)

MASKS: tuple[Mask, ...] = (
    Mask("*", "{world}", "each world has its own folder"),
    Mask("*", "{broker}", "each world has its own ports"),
    Mask("*", "{namesrv}", "each world has its own ports"),
    Mask("*", r"\b7F0000010000[0-9A-F]{20}\b", "offset message id: the broker's port is part of it"),
    Mask("*", r"(?:push|producer)-({kind})", "each world has its own clients"),
    Mask("*", r"\b7F000001(?!0000)[0-9A-F]{24}\b", "message id: made from the sending process's id and clock"),
    Mask("*", r"[bB]orn ?[hH]ost[:=] */?127\.0\.0\.1:(\d+)", "the sending client's port"),
    Mask("*", r"(?:born|store)Timestamp=(\d+)", "the time of the run"),
    Mask("*", r"(?:Born|Store) Timestamp: +(.*)", "the time of the run"),
    Mask("*", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d{3})?", "the time of the run"),
    Mask("*", r"(?:127\.0\.0\.1@\S+ +|remoteIP=/)127\.0\.0\.1:(\d+)", "a client's port"),
    Mask(
        "brokerStatus",
        r"(?:bootTimestamp|runtime|earliestMessageTimeStamp|commitLogD\S+|consumeQueueDiskRatio|\w+Tps|\w+TimeMax"
        r"|putMessageDistributeTime|putLatency\d+|remainHowManyDataToFlush) *: (.*)$",
        "times, rates and sizes the broker measured",
    ),
    Mask("brokerStatus", r"commitLogMinOffset *: (-1|0)$", "an empty log begins at 0; Apache's has no beginning"),
    Mask("brokerStatus", r"remainTransientStoreBufferNumbs *: (.*)$", "ours has no such buffers; Apache's none in use"),
    Mask("brokerStatus", r"msgPutTotalTodayNow *: (.*)$", "ours counts all messages, Apache's not the self-test's"),
    Mask("clusterList", r" (\d+\.\d\d\(.*) (?:true|false)$", "the broker's running figures"),
    Mask(
        "topicList",
        r"^.*RMQ_SYS_ROCKSDB_TRANS_(?:OP_)?HALF_TOPIC *\n",
        "topics of an engine for transactions that ours does not have",
        shown="",
    ),
    *(
        Mask(command, r"OK, (\d+)", "the number of topics: those of an engine that ours does not have")
        for command in ("wipeWritePerm", "addWritePerm")
    ),
    Mask(
        "getBrokerConfig",
        r"^(?!(?:autoCreateTopicEnable|brokerClusterName|brokerId|brokerName|brokerPermission|brokerRole|deleteWhen"
        r"|fileReservedTime|flushCommitLogTimed|flushDiskType|mappedFileSizeCommitLog|maxMessageSize|messageDelayLevel"
        r"|namesrvAddr|registerNameServerPeriod|storePathRootDir) ).*\n",
        "each has settings that the other has not; another test compares all defaults",
        shown="",
    ),
    Mask("checkMsgSendRT", r"(?:true +|Avg RT: )([\d.]+)", "a measured time"),
    Mask("sendMsgStatus", r"rt=(\d+)ms", "a measured time"),
    Mask("sendMessage", r" (\d) +SEND_OK", "the client chooses the queue at random"),
    Mask("producer", r"lastUpdateTimestamp=(\d+)", "the time of the run"),
    Mask("consumerStatus", r" (\d{13})/", "the time of the run"),
    Mask("consumerProgress", r"Consume TPS: ([\d.]+)", "a measured rate"),
    Mask("queryMsgByUniqueKey", r"spentTimeMills=(\d+)", "a measured time"),
    Mask("resetOffsetByTime", r"timestamp\(long\)\[(\d+)\]", "the time of the run"),
    Mask("statsAll", r" (\d+ +\d+\.\d\d .*)$", "the broker's running figures"),
)

_AFTER_FIRST_WAIT = "is there once the consumer's first wait at its retry queue is over"

SOMETIMES: tuple[Mask, ...] = (
    Mask("consumerProgress", r"^%RETRY%Readers .*\n", _AFTER_FIRST_WAIT, shown=""),
    Mask("brokerConsumeStats", r"^%RETRY%Readers .*\n", _AFTER_FIRST_WAIT, shown=""),
    Mask("brokerStatus", r"timerReadBehind +: (\d+)", "how far Apache's timer is behind at that moment"),
)
"""What a slow run shows and a quick one does not."""

UNORDERED: dict[str, str] = {
    "topicList": "the answer is a set; mqadmin prints it in the order of its hash table",
    "statsAll": "goes through the topic list",
    "producer": "mqadmin prints its hash table",
    "getBrokerConfig": "mqadmin prints its hash table, whose order depends on how many settings there are",
}
"""Commands whose lines are compared without regard to order, each with the reason."""
